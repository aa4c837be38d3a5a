"""The fork tree and a fork's whole history over HTTP."""

from typing import Any

import pytest
from django.db import transaction

from sessions_app.models import Session
from sessions_app.services import event, fork
from sessions_app.states import SessionState
from tests.support.api import Caller, caller, error_of
from tests.support.fleet import Tenant, session_row


@pytest.fixture
def parent(owner: Tenant) -> Session:
    made = session_row(owner.account, name="parent")
    with transaction.atomic():
        for number in range(3):
            event.append(made.id, f"parent.{number}", source="test")
    return made


@pytest.fixture
def child(parent: Session) -> Session:
    with transaction.atomic():
        return fork.create_child(
            parent, fork.child_id("op_test", 0), source="test", facts={"checkpoint_id": "ck_point", "parent_events": 2}
        )


def _events(api: Caller, session: Session, query: str) -> Any:
    return api("GET", f"/api/v2/sessions/{session.id}/events?{query}").json()["data"]


def test_a_member_tells_where_it_was_forked(api: Caller, parent: Session, child: Session) -> None:
    tree = api("GET", f"/api/v2/sessions/{parent.id}/lineage").json()["data"]
    (row,) = tree["descendants"]
    assert (row["session_id"], row["parent"], row["generation"]) == (child.id, parent.id, 1)
    assert (row["fork_checkpoint_id"], row["fork_event_watermark"], row["execution_epoch"]) == ("ck_point", 2, 0)
    assert (tree["ancestors"], tree["more_descendants"], tree["unknown_ancestor_id"]) == ([], False, None)


def test_a_deleted_member_is_named_and_tells_nothing(api: Caller, parent: Session, child: Session) -> None:
    Session.objects.filter(id=parent.id).update(runtime_state=SessionState.DELETED)
    (row,) = api("GET", f"/api/v2/sessions/{child.id}/lineage").json()["data"]["ancestors"]
    assert (row["session_id"], row["deleted"], row["runtime_state"]) == (parent.id, True, "deleted")
    assert (row["name"], row["execution_epoch"], row["event_count"]) == (None, None, None)


def test_a_whole_line_begins_with_the_parents_and_its_cursor_crosses_the_seam(api: Caller, parent: Session, child: Session) -> None:
    seen, cursor = [], ""
    for _ in range(3):
        page = _events(api, child, f"line=full&limit=1&cursor={cursor}")
        seen += [(row["session_id"], row["stream_seq"], row["superseded"]) for row in page["items"]]
        cursor = page["next_cursor"]
    assert seen == [(parent.id, 1, False), (parent.id, 2, False), (child.id, 1, False)]
    assert (cursor, page["gaps"]) == ("", [])
    assert [row["session_id"] for row in _events(api, child, "")["items"]] == [child.id]


def test_the_gap_that_a_deleted_parent_leaves_is_told(api: Caller, parent: Session, child: Session) -> None:
    Session.objects.filter(id=parent.id).update(runtime_state=SessionState.DELETED)
    page = _events(api, child, "line=full")
    assert [row["session_id"] for row in page["items"]] == [child.id]
    assert page["gaps"] == [{"session_id": parent.id, "from_seq": 1, "to_seq": 2, "reason": "deleted"}]


def test_events_that_a_restore_left_are_marked(api: Caller, parent: Session) -> None:
    with transaction.atomic():
        event.append(parent.id, "session.restored", {"event_watermark": 1, "left_events": 3}, source="test")
    assert [row["superseded"] for row in _events(api, parent, "")["items"]] == [False, True, True, False]


@pytest.mark.parametrize("query", ["line=both", "line=full&after_seq=1", "line=full&cursor=7", "line=own&cursor=x.1"])
def test_what_is_no_line_or_cursor_is_refused(api: Caller, child: Session, query: str) -> None:
    assert api("GET", f"/api/v2/sessions/{child.id}/events?{query}").status_code == 400


def test_a_stranger_reads_neither(child: Session, stranger: Tenant) -> None:
    for path in ("lineage", "events?line=full"):
        assert error_of(caller(stranger)("GET", f"/api/v2/sessions/{child.id}/{path}"))["code"] == "ks_not_found"
