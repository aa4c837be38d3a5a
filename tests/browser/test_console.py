"""The operator's console in a real browser: signing in, the dashboard, a session with its lineage, acts."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now
from django.test import Client
from playwright.sync_api import BrowserContext, Page, expect

from checkpoints_app.models import Sweep
from checkpoints_app.states import CheckpointState
from sessions_app.models import AccountUsage, Operation, Sample, Session
from sessions_app.services import event, sample
from sessions_app.states import OperationKind, SessionState
from tests.browser.conftest import shot
from tests.support.fleet import Tenant, checkpoint_row, session_row

PASSWORD = "a long pass phrase"


@pytest.fixture
def operator(transactional_db: None) -> User:
    return User.objects.create_superuser("operator", password=PASSWORD)


@pytest.fixture
def signed_in(operator: User, context: BrowserContext, address: str) -> User:
    client = Client()
    client.force_login(operator)
    context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": address}])
    return operator


def test_an_operator_signs_in_and_a_wrong_password_opens_nothing(page: Page, operator: User) -> None:
    page.goto("/admin/")
    page.get_by_label("Username").fill("operator")
    page.locator("input[name=password]").fill("not it")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Please enter the correct username and password")).to_be_visible()
    shot(page, "sign-in")
    page.locator("input[name=password]").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Stuck operations")).to_be_visible()
    expect(page.get_by_text("No host has registered.")).to_be_visible()
    shot(page, "dashboard-empty")


def test_the_dashboard_shows_what_is_wrong_and_what_happened(page: Page, signed_in: User, owner: Tenant) -> None:
    a_bad_day(owner)
    page.goto("/admin/")
    expect(page.locator("#now a", has_text="Stuck operations")).to_contain_text("2")
    expect(page.locator("#saves svg")).to_be_visible()
    expect(page.get_by_role("img", name="Resume, request to running machine, 24 hours")).to_be_visible()
    shot(page, "dashboard-light")
    page.emulate_media(color_scheme="dark")
    page.get_by_role("link", name="7 days").click()
    expect(page.get_by_role("img", name="Running machines, 7 days")).to_be_visible()
    shot(page, "dashboard-dark")


def test_a_session_is_looked_at_saved_and_its_save_cancelled(page: Page, signed_in: User, owner: Tenant) -> None:
    session = a_tree(owner)
    page.goto(f"/admin/sessions_app/session/?q={session.short_id}")
    shot(page, "sessions")
    page.get_by_role("link", name=session.short_id).first.click()
    expect(page.get_by_role("img", name="Lineage")).to_be_visible()
    shot(page, "session-light")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("is queued")).to_be_visible()
    operation = Operation.objects.get(session=session, state="queued")
    page.locator("#overview a", has_text="checkpoint").click()
    page.locator("summary", has_text="Cancel").click()
    page.get_by_role("button", name="Yes, cancel").click()
    expect(page.get_by_text(f"{operation}: cancelled")).to_be_visible()
    shot(page, "operation")
    operation.refresh_from_db()
    assert operation.state == "cancelled"
    page.goto(f"/admin/sessions_app/session/{session.id}/change/")
    page.get_by_role("button", name="Delete…").click()
    expect(page.get_by_label("Type the session's id")).to_be_visible()
    shot(page, "session-deletion")
    page.emulate_media(color_scheme="dark")
    page.get_by_role("link", name="Keep it").click()
    expect(page.get_by_role("img", name="Lineage")).to_be_visible()
    shot(page, "session-dark")
    page.locator("svg.ks-lineage a", has_text="corrupt").click()
    expect(page.get_by_role("button", name="Verify what it is stored in")).to_be_visible()
    shot(page, "checkpoint-dark")


def a_bad_day(owner: Tenant) -> None:
    """A day of work with failures, two operations that nobody works on, a late sweep."""
    running = [session_row(owner.account, name=f"agent-{number}") for number in range(6)]
    session_row(owner.account, SessionState.FAILED, host_id="", name="broken")
    AccountUsage.objects.create(account=owner.account, stored_bytes=9 << 30)
    for hours in range(24):
        for number in range(hours % 5 + 1):
            asked: dict[str, Any] = {"account": owner.account, "session": running[number], "queue": "host.h-test", "state": "succeeded"}
            at = Now() - timedelta(hours=hours, minutes=1)
            Operation.objects.create(kind=OperationKind.CHECKPOINT, accepted_at=at, finished_at=at, **asked)
            ended = Now() - timedelta(hours=hours, minutes=1) + timedelta(milliseconds=90 + 37 * number * (hours % 7))
            Operation.objects.create(kind=OperationKind.RESUME, accepted_at=at, finished_at=ended, **asked)
    for minutes in range(0, 24 * 60, 15):
        at = Now() - timedelta(minutes=minutes)
        Sample.objects.create(gauge=sample.RUNNING_MACHINES, at=at, value=3 + (minutes // 90) % 4)
        Sample.objects.create(gauge=sample.STORED_BYTES, at=at, value=(9 << 30) - minutes * (3 << 20))
    lost = {"account": owner.account, "queue": "pin.0123456789abcdef"}
    queued = {"state": "queued", "due_at": Now() - timedelta(minutes=9), "accepted_at": Now() - timedelta(minutes=9)}
    Operation.objects.create(session=running[0], kind=OperationKind.RESUME, **queued, **lost)
    orphaned = {"state": "running", "lease_owner": "h-test/run/4711", "lease_expires_at": Now() - timedelta(minutes=2), "attempt": 1}
    Operation.objects.create(session=running[1], kind=OperationKind.CHECKPOINT, **orphaned, **lost)
    error = {"code": "ks_save_failed", "message": "The host's disk is full. The machine runs on; every earlier checkpoint is intact."}
    Operation.objects.create(session=running[2], kind=OperationKind.CHECKPOINT, state="failed", error=error, finished_at=Now(), **lost)
    for name, minutes in (("housekeeping", 0), ("webhooks", 40), ("store_upkeep", 5)):
        ended = Now() - timedelta(minutes=minutes)
        Sweep.objects.create(name=name, started_at=ended, finished_at=ended, objects_done=17)


def a_tree(owner: Tenant) -> Session:
    """A session of five checkpoints, one of them corrupt, with two forks, one of which was forked again."""
    session = session_row(owner.account, name="planner")
    line = _line(session, 5)
    type(line[2]).objects.filter(id=line[2].id).update(state=CheckpointState.CORRUPT)
    left, right = _fork(owner, line[1], "left"), _fork(owner, line[3], "right")
    _line(right, 2)
    _line(_fork(owner, _line(left, 3)[1], "deeper"), 1)
    with transaction.atomic():
        event.append(session.id, "session.created", {}, source="api")
    return session


def _line(session: Session, number: int) -> list[Any]:
    rows: list[Any] = []
    for at in range(number):
        parent = rows[-1] if rows else type(session).objects.get(id=session.id).head_checkpoint_id
        made: dict[str, Any] = {"parent_id": getattr(parent, "id", parent) or None, "created_at": Now() - timedelta(minutes=90 - 10 * at)}
        sizes: dict[str, Any] = {"logical_bytes": 2 << 30, "written_bytes": 6 << 20, "unique_bytes": 4 << 20, "stored_bytes": 1_500_000}
        rows.append(checkpoint_row(session, **made, **sizes, pause_seconds=0.031))
    return rows


def _fork(owner: Tenant, checkpoint: Any, name: str) -> Session:
    child = session_row(owner.account, SessionState.PARKED, name=name, parent_id=checkpoint.session_id, host_id="")
    checkpoint_row(child, parent=checkpoint, created_at=checkpoint.created_at, boundary="fork")
    return child
