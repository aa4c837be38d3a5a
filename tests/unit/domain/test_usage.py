"""Usage: machines' time counted from their session's steps, told to the service record once, and null where nobody knows."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints_app.models import Manifest, Pack
from checkpoints_app.states import CheckpointState
from sessions_app.models import AccountUsage, ServiceRecord, Session, SessionUsage
from sessions_app.services import awake, record, roll_up, stored, usage
from sessions_app.services import session as sessions
from sessions_app.states import SessionState
from tests.support.fleet import Tenant, checkpoint_row, session_row

HOUR = timedelta(hours=1)


def step(session: Session, to: SessionState, **changes: Any) -> None:
    with transaction.atomic():
        sessions.move(session, list(SessionState), to, source="test", type_=f"session.{to}", **changes)


def hours_pass(hours: float, *, seen_alive: bool = True) -> None:
    """As if what was counted until now lay so many hours back."""
    span = timedelta(hours=hours)
    SessionUsage.objects.update(awake_since=F("awake_since") - span, told_at=F("told_at") - span)
    AccountUsage.objects.update(stored_told_at=F("stored_told_at") - span)
    if not seen_alive:
        SessionUsage.objects.update(proved_at=F("proved_at") - span)


def awake_of(session: Session) -> tuple[int | None, str]:
    figure = usage.of_session(session).runtime
    assert figure.value is not None
    return round(figure.value / 3600), figure.standing


@pytest.fixture
def running(owner: Tenant) -> Session:
    session = session_row(owner.account, SessionState.PROVISIONING)
    step(session, SessionState.RUNNING)
    return session


def lines(kind: str = "usage.awake") -> list[dict[str, Any]]:
    return list(ServiceRecord.objects.filter(type=kind).order_by("id").values_list("facts", flat=True))


def test_a_session_whose_machine_never_ran_was_awake_for_no_time(owner: Tenant) -> None:
    assert awake_of(session_row(owner.account, SessionState.PARKED)) == (0, "actual")


def test_a_machine_that_runs_is_counted_up_to_now(running: Session) -> None:
    hours_pass(2)
    assert awake_of(running) == (2, "actual")


def test_a_save_is_time_awake_and_the_parking_ends_it(running: Session) -> None:
    step(running, SessionState.CHECKPOINTING)
    hours_pass(2)
    step(running, SessionState.STOPPING)
    step(running, SessionState.PARKED)
    assert awake_of(running) == (2, "actual")
    assert SessionUsage.objects.get(session=running).awake_since is None


def test_times_awake_add_up_over_resumes(running: Session) -> None:
    for state in (SessionState.CHECKPOINTING, SessionState.STOPPING, SessionState.PARKED, SessionState.RESUMING, SessionState.RUNNING):
        if state == SessionState.STOPPING:
            hours_pass(1)
        step(running, state)
    hours_pass(3)
    assert awake_of(running) == (4, "actual")


def test_a_machine_that_was_found_lost_counts_until_it_was_last_seen_and_is_estimated(running: Session) -> None:
    hours_pass(5, seen_alive=False)
    SessionUsage.objects.update(proved_at=F("awake_since") + HOUR)
    step(running, SessionState.FAILED)
    assert awake_of(running) == (1, "estimated")


def test_a_machine_that_nobody_sees_counts_until_it_was_last_seen(running: Session) -> None:
    hours_pass(5, seen_alive=False)
    SessionUsage.objects.update(proved_at=F("awake_since") + HOUR)
    assert awake_of(running) == (1, "estimated")


def test_a_machine_that_is_seen_again_counts_on(running: Session) -> None:
    hours_pass(5, seen_alive=False)
    awake.prove([running.id])
    assert awake_of(running) == (5, "actual")


def test_a_deletion_ends_the_time_and_tells_it_at_once(running: Session) -> None:
    hours_pass(2)
    step(running, SessionState.DELETING)
    step(running, SessionState.DELETED)
    (line,) = lines()
    assert (round(line["awake_ms"] / 3_600_000), line["awake_standing"], line["tokens"]) == (2, "actual", 0)


def test_the_roll_up_tells_each_hour_once_however_often_it_runs(running: Session) -> None:
    hours_pass(1)
    awake.prove([running.id])
    SessionUsage.objects.update(proved_at=Now())
    roll_up.run_due()
    roll_up.run_due()
    assert len(lines()) == 1
    hours_pass(2)
    roll_up.run_due()
    roll_up.run_due()
    assert [round(line["awake_ms"] / 3_600_000) for line in lines()] == [1, 2]
    assert AccountUsage.objects.get().awake_ms == sum(line["awake_ms"] for line in lines())


def test_a_roll_up_that_dies_has_told_nothing_and_the_next_one_tells_all(running: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    hours_pass(1)
    SessionUsage.objects.update(proved_at=Now())

    def dies(*_: Any, **__: Any) -> None:
        raise RuntimeError("the worker's end")

    with monkeypatch.context() as patch:
        patch.setattr(record, "write", dies)
        with pytest.raises(RuntimeError):
            roll_up.run_due()
    assert (lines(), SessionUsage.objects.get().told_ms) == ([], 0)
    roll_up.run_due()
    assert [round(line["awake_ms"] / 3_600_000) for line in lines()] == [1]


def test_a_session_that_stays_parked_has_one_line_and_no_more(running: Session) -> None:
    hours_pass(1)
    for state in (SessionState.CHECKPOINTING, SessionState.STOPPING, SessionState.PARKED):
        step(running, state)
    roll_up.run_due()
    hours_pass(2)
    roll_up.run_due()
    assert len(lines()) == 1


def test_stored_bytes_of_a_session_are_those_of_its_saves_and_estimated_once_one_is_erased(owner: Tenant) -> None:
    session = session_row(owner.account)
    for size in (100, 20):
        checkpoint_row(session, stored_bytes=size)
    assert (usage.of_session(session).storage.value, usage.of_session(session).storage.standing) == (120, "actual")
    checkpoint_row(session, CheckpointState.ERASED, stored_bytes=7)
    assert (usage.of_session(session).storage.value, usage.of_session(session).storage.standing) == (120, "estimated")


def test_stored_bytes_of_an_account_grow_with_publications_and_are_measured(owner: Tenant) -> None:
    assert stored.of_account(owner.account.id) == 0
    stored.added(owner.account.id, 100)
    stored.added(owner.account.id, 20)
    assert stored.of_account(owner.account.id) == 120
    assert usage.of_account(owner.account).storage.standing == "estimated"
    Pack.objects.create(id="p", account=owner.account, stored_bytes=70, unit_count=1, units=b"")
    Manifest.objects.create(id="m", account=owner.account, stored_bytes=8)
    assert stored.measure_due() == 1
    figure = usage.of_account(owner.account).storage
    assert (figure.value, figure.standing) == (78, "actual")
    assert stored.measure_due() == 0


def test_stored_bytes_are_told_once_an_hour(owner: Tenant) -> None:
    stored.added(owner.account.id, 100)
    Pack.objects.create(id="p", account=owner.account, stored_bytes=70, unit_count=1, units=b"")
    stored.measure_due()
    roll_up.run_due()
    roll_up.run_due()
    hours_pass(2)
    roll_up.run_due()
    assert [line["stored_bytes"] for line in lines("usage.stored")] == [70, 70]


def test_what_nobody_knows_is_null(owner: Tenant) -> None:
    AccountUsage.objects.create(account=owner.account)
    figures = usage.of_account(owner.account)
    assert (figures.storage.value, figures.storage.standing) == (None, "unavailable")
