"""Quotas: refused before anything is written, counted from the acceptance on, and never given twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from checkpoints_app.models import Checkpoint
from sessions_app.errors import QuotaExceeded
from sessions_app.models import Account, AccountUsage, Operation, ServiceRecord, Session
from sessions_app.services import fork, lifecycle, operation, provision, quota, stored
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.services.placement import Placement
from sessions_app.services.quota import Quota
from sessions_app.services.session import Wanted
from sessions_app.states import OperationKind, SessionState
from tests.support.fleet import IMAGE, Tenant, boot_asked, session_row
from tests.support.threads import at_once


def allow(account: Account, **most: int | None) -> None:
    quota.set_limits(account, {Quota(name): limit for name, limit in most.items()}, by="operator")


def used(account: Account) -> dict[str, int | None]:
    return {standing.quota.value: standing.used for standing in quota.of_account(account)}


@contextmanager
def refused(**facts: object) -> Iterator[None]:
    with pytest.raises(QuotaExceeded) as error:
        yield
    assert facts.items() <= error.value.facts.items()


def test_without_quotas_nothing_is_refused(owner: Tenant) -> None:
    assert [standing.limit for standing in quota.of_account(owner.account)] == [None, None, None]
    boot_asked(owner.account)
    assert used(owner.account) == {"sessions": 1, "running_machines": 1, "stored_bytes": 0}


def test_a_start_beyond_the_sessions_is_refused_and_nothing_is_written(owner: Tenant) -> None:
    allow(owner.account, sessions=1)
    session_row(owner.account, SessionState.PARKED)
    with refused(quota="sessions", limit=1, used=1):
        boot_asked(owner.account)
    assert (Session.objects.count(), Operation.objects.count()) == (1, 0)
    with refused(quota="sessions"):
        provision.record(owner.account, Wanted(image=IMAGE))


def test_a_deleted_session_takes_no_place(owner: Tenant) -> None:
    allow(owner.account, sessions=1)
    session_row(owner.account, SessionState.DELETED)
    boot_asked(owner.account)


def test_a_machine_counts_from_the_acceptance_of_its_start_until_it_is_parked(owner: Tenant) -> None:
    allow(owner.account, running_machines=2)
    boot_asked(owner.account)
    session_row(owner.account, SessionState.STOPPING)
    parked = session_row(owner.account, SessionState.PARKED, saved=True)
    with refused(quota="running_machines", limit=2, used=2):
        sessions.resume(parked, checkpoint_id=None, asked=Asked())
    with refused(quota="running_machines"):
        boot_asked(owner.account)
    Session.objects.filter(runtime_state=SessionState.STOPPING).update(runtime_state=SessionState.PARKED)
    sessions.resume(parked, checkpoint_id=None, asked=Asked())


def test_a_session_that_counts_already_may_be_resumed(owner: Tenant) -> None:
    allow(owner.account, running_machines=1)
    running = session_row(owner.account, saved=True)
    sessions.resume(running, checkpoint_id=None, asked=Asked())


def test_the_children_of_a_fork_count_before_they_are_there(owner: Tenant) -> None:
    allow(owner.account, running_machines=4, sessions=4)
    parent = session_row(owner.account, SessionState.PARKED, saved=True)
    with refused(quota="sessions", used=1):
        fork.ask(parent, children=4, checkpoint_id=None, asked=Asked())
    fork.ask(parent, children=3, checkpoint_id=None, asked=Asked())
    assert used(owner.account) == {"sessions": 4, "running_machines": 3, "stored_bytes": 0}
    with refused(quota="sessions"):
        boot_asked(owner.account)


def test_children_that_are_there_count_once(owner: Tenant) -> None:
    """As the worker's one commit makes them (workers/operations/fork.py)."""
    allow(owner.account, running_machines=1)
    parent = session_row(owner.account, SessionState.PARKED, saved=True)
    asked = fork.ask(parent, children=1, checkpoint_id=None, asked=Asked())
    child = session_row(owner.account, SessionState.PARKED, saved=True)
    operation.accept(session=child, kind=OperationKind.RESUME, place=lambda: Placement("q"), asked=Asked(), parameters={}, admitted=True)
    Operation.objects.filter(id=asked.id).update(progress={"children": [child.id], "answered": 0})
    assert used(owner.account)["running_machines"] == 1


def test_a_save_is_refused_once_the_account_has_stored_what_it_may(owner: Tenant) -> None:
    allow(owner.account, stored_bytes=100)
    session = session_row(owner.account)
    stored.added(owner.account.id, 99)
    sessions.checkpoint(session, stop=False, reason="", asked=Asked())
    Operation.objects.all().delete()
    stored.added(owner.account.id, 1)
    with refused(quota="stored_bytes", limit=100, used=100):
        sessions.checkpoint(session, stop=False, reason="", asked=Asked())
    with refused(quota="stored_bytes"):
        lifecycle.ask_save(session, stop=True, reason="idle")
    with refused(quota="stored_bytes"):
        fork.ask(session, children=1, checkpoint_id=None, asked=Asked())
    assert not Checkpoint.objects.exists()


def test_bytes_that_were_never_measured_are_measured_before_they_decide(owner: Tenant) -> None:
    allow(owner.account, stored_bytes=1)
    AccountUsage.objects.create(account=owner.account)
    sessions.checkpoint(session_row(owner.account), stop=False, reason="", asked=Asked())
    assert AccountUsage.objects.get().stored_bytes == 0


@pytest.mark.django_db(transaction=True)
def test_of_two_starts_at_once_one_gets_the_last_place(owner: Tenant) -> None:
    allow(owner.account, running_machines=1)

    def start(_: int) -> str:
        try:
            return boot_asked(owner.account).state
        except QuotaExceeded as error:
            return error.code

    assert sorted(at_once(3, start)) == ["ks_quota_exceeded", "ks_quota_exceeded", "queued"]
    assert Session.objects.count() == 1


def test_the_installation_s_defaults_hold_for_an_account_without_its_own(owner: Tenant, settings: Any) -> None:
    settings.KEEPSTATE_QUOTA_SESSIONS, settings.KEEPSTATE_QUOTA_GIB = 3, 2
    assert [standing.limit for standing in quota.of_account(owner.account)] == [3, None, 2 << 30]
    allow(owner.account, sessions=None)
    assert [standing.limit for standing in quota.of_account(owner.account)] == [None, None, 2 << 30]


def test_the_command_sets_shows_and_tells_the_service_record(owner: Tenant) -> None:
    out = StringIO()
    call_command("set_quota", "owner", "--machines", "5", "--gib", "2", stdout=out)
    assert "running_machines: 0 of 5" in out.getvalue()
    assert ServiceRecord.objects.get(kind="operator").facts == {"sessions": None, "running_machines": 5, "stored_bytes": 2 << 30}
    call_command("set_quota", "owner", "--defaults", stdout=out)
    assert quota.limits(owner.account.id)[Quota.RUNNING_MACHINES] is None
    for wrong in (["nobody"], ["owner", "--gib", "-1"], ["owner", "--defaults", "--gib", "1"]):
        with pytest.raises(CommandError, match="Nothing was changed"):
            call_command("set_quota", *wrong)
