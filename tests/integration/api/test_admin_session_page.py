"""A session's page: what it does now, its sizes, its lineage and its timeline, bounded, and without a customer's content."""

from datetime import timedelta
from typing import Any
from xml.etree import ElementTree

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from checkpoints_app.lineage import tree
from checkpoints_app.models import Checkpoint
from checkpoints_app.states import CheckpointState
from sessions_app.models import Operation, Session
from sessions_app.services import event
from sessions_app.states import OperationKind, SessionState
from tests.support.fleet import Tenant, checkpoint_row, session_row

MOST_QUERIES = 24


def part(client: Client, session: Session, key: str) -> str:
    answer = client.get(reverse("admin:sessions_app_session_change", args=[session.pk]))
    assert answer.status_code == 200
    return next(str(one.content) for one in answer.context["parts"] if one.key == key)


def row(session: Session, parent: Checkpoint | None = None, **fields: Any) -> Checkpoint:
    return checkpoint_row(session, **{"parent": parent, **fields})


def test_a_new_session_has_a_page_that_says_what_is_not_there(owner: Tenant, admin_client: Client) -> None:
    session = session_row(owner.account, SessionState.PROVISIONING, host_id="")
    assert "No checkpoint has been saved on this line yet." in part(admin_client, session, "lineage-picture")
    assert "No checkpoint has been saved yet." in part(admin_client, session, "sizes")
    assert "Nothing has happened yet." in part(admin_client, session, "timeline")
    assert "its work is not saved" in part(admin_client, session, "overview")


def test_the_picture_shows_the_whole_family_with_heads_and_damage_and_leads_to_each(owner: Tenant, admin_client: Client) -> None:
    parent = session_row(owner.account, name="parent")
    first = row(parent)
    second = row(parent, first, created_at=Now() + timedelta(seconds=1))
    child = session_row(owner.account, SessionState.PARKED, name="child", parent_id=parent.id)
    begun = row(child, first, boundary="fork")
    Checkpoint.objects.filter(id=second.id).update(state=CheckpointState.CORRUPT)
    parsed = ElementTree.fromstring(f"<r>{part(admin_client, child, 'lineage-picture')}</r>")
    told = {link.findtext("title"): link.attrib["href"] for link in parsed.iter("a") if link.find("title") is not None}
    words = sorted(str(title).split(" 20")[0].rstrip(",") for title in told)
    assert words == sorted([f"{first.id}: published", f"{second.id}: corrupt, head", f"{begun.id}: published, head"])
    assert any(f"ck_5F{begun.id.removeprefix('ck_')}" in link or begun.id in link for link in told.values())
    assert {text.text for text in parsed.iter("text")} == {"parent", "child"}


def test_sizes_that_are_not_known_are_dashes_and_no_zeros(owner: Tenant, admin_client: Client) -> None:
    session = session_row(owner.account)
    row(session, stored_bytes=3 << 20, pause_seconds=0.031)
    cells = [cell.text for cell in ElementTree.fromstring(f"<r>{part(admin_client, session, 'sizes')}</r>").iter("td")]
    assert cells[3:] == ["–", "–", "–", "3 MiB", "31 ms"]


def test_the_timeline_merges_history_and_operations_newest_first_and_shows_no_content(owner: Tenant, admin_client: Client) -> None:
    session = session_row(owner.account)
    event.append(session.id, "session.created", {"reason": "private words"}, source="api")
    asked = {"account": owner.account, "session": session, "queue": "q", "parameters": {"argv": ["private words"]}}
    Operation.objects.create(kind=OperationKind.EXEC, state="failed", error={"message": "private words"}, **asked)
    page = admin_client.get(reverse("admin:sessions_app_session_change", args=[session.pk])).content.decode()
    assert "private words" not in page
    timeline = part(admin_client, session, "timeline")
    assert timeline.index("exec op_") < timeline.index("1. session.created")


def test_the_page_costs_as_many_questions_for_a_large_family_as_for_a_small_one(owner: Tenant, admin_client: Client) -> None:
    def queries(session: Session) -> int:
        with CaptureQueriesContext(connection) as seen:
            admin_client.get(reverse("admin:sessions_app_session_change", args=[session.pk]))
        return len(seen)

    session = session_row(owner.account)
    first = row(session)
    child = session_row(owner.account, SessionState.PARKED, parent_id=session.id)
    row(child, first)
    few = queries(session)
    for _ in range(20):
        row(session_row(owner.account, SessionState.PARKED, parent_id=child.id), first)
        row(session)
    assert queries(session) == few <= MOST_QUERIES


def test_what_is_left_out_is_said(owner: Tenant, admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "OWN", 2)
    session = session_row(owner.account)
    for _ in range(3):
        row(session)
    shown = part(admin_client, session, "lineage-picture")
    assert "Only the newest 2 checkpoints of this session" in shown
    assert shown.count("ks-point") == 2
