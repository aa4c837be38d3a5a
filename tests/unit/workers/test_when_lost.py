"""When a host counts as lost, and that nothing which fails keeps its sessions from being taken."""

import pytest
from django.db import OperationalError, connection
from django.db.models import F
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from gateway_app.models import GatewayProcess
from sessions_app.errors import Conflict
from sessions_app.models import ServiceRecord, Session
from sessions_app.services import recovery_policy
from tests.support.fleet import GIB, HOST, Tenant, session_row
from tests.support.losses import LONG, OTHER, ask_save, is_lost, silent, turn
from workers.fleet import lost, taken
from workers.fleet.lost import declare
from workers.models import FleetWatch, Host

pytestmark = pytest.mark.django_db


def test_a_host_that_is_heard_of_is_not_lost(fleet: Tenant) -> None:
    assert turn() == 0
    assert not is_lost()


def test_a_host_that_nobody_hears_of_is_lost_and_one_that_rests_or_whose_gateway_answers_or_that_is_retired_is_not(fleet: Tenant) -> None:
    for name, fields in (("h-resting", {"resting_until": Now() + LONG}), ("h-gateway", {}), ("h-retired", {"retired_at": Now()})):
        Host.objects.create(id=name, memory_bytes=GIB, cpus=1, boot_id="boot", heartbeat_at=Now() - LONG, **fields)
    GatewayProcess.objects.create(name="g", host_id="h-gateway")
    silent()
    turn()
    assert list(Host.objects.filter(lost_at__isnull=False).values_list("id", flat=True)) == [HOST]


def test_when_no_host_at_all_is_heard_of_none_is_lost(fleet: Tenant) -> None:
    silent(HOST)
    silent(OTHER)
    turn()
    assert not is_lost(HOST)
    assert not is_lost(OTHER)


def test_after_a_gap_in_the_turns_silence_counts_only_from_its_end_on(fleet: Tenant) -> None:
    silent()
    FleetWatch.objects.update(looked_at=Now() - LONG)
    turn()
    assert not is_lost(), "nobody listened meanwhile"
    turn()
    assert not is_lost(), "and not for long since"
    FleetWatch.objects.update(since=F("since") - LONG)
    turn()
    assert is_lost()


def test_the_very_first_turn_judges_nobody(fleet: Tenant) -> None:
    FleetWatch.objects.all().delete()
    silent()
    turn()
    assert not is_lost()


def test_a_host_that_is_heard_of_again_is_lost_no_more_and_keeps_what_was_not_taken(fleet: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = sorted((session_row(fleet.account, saved=True) for _ in range(2)), key=lambda one: one.id)
    silent()
    monkeypatch.setattr(lost, "BATCH", 1)
    assert turn() == 1
    Host.objects.filter(id=HOST).update(heartbeat_at=Now())
    assert turn() == 0
    assert not is_lost()
    for session in (first, second):
        session.refresh_from_db()
    assert (first.epoch, second.epoch, second.runtime_state, second.host_id) == (2, 1, "running", HOST)


def test_a_session_is_not_taken_from_a_host_that_is_heard_of_between_the_mark_and_the_taking(fleet: Tenant) -> None:
    session = session_row(fleet.account, saved=True)
    Host.objects.filter(id=HOST).update(lost_at=Now() - LONG)
    assert not taken.take(session.id, HOST)
    session.refresh_from_db()
    assert session.runtime_state == "running"


def test_an_operator_declares_a_silent_host_lost_although_its_gateway_answers_and_never_one_that_is_heard_of(fleet: Tenant) -> None:
    session = session_row(fleet.account, saved=True)
    GatewayProcess.objects.create(name="g", host_id=HOST)
    with pytest.raises(Conflict, match="heard of"):
        declare(Host.objects.get(id=HOST), "anna")
    silent()
    declare(Host.objects.get(id=HOST), "anna")
    assert turn() == 1
    session.refresh_from_db()
    assert session.epoch == 2
    assert ServiceRecord.objects.get(type="operator.lose").actor == "anna"
    assert GatewayProcess.objects.exists(), "it still reads its calls to their ends"


# -- under failure


def test_lost_hosts_that_were_retired_cost_a_turn_nothing(fleet: Tenant) -> None:
    with CaptureQueriesContext(connection) as without:
        turn()
    for number in range(3):
        gone = {"heartbeat_at": Now() - LONG, "lost_at": Now(), "retired_at": Now()}
        Host.objects.create(id=f"h-gone-{number}", memory_bytes=GIB, cpus=1, boot_id="boot", **gone)
    with CaptureQueriesContext(connection) as beside:
        turn()
    assert len(beside) == len(without)


def test_a_session_that_cannot_be_taken_keeps_no_other_from_it(fleet: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = sorted((session_row(fleet.account, saved=True) for _ in range(2)), key=lambda one: one.id)
    sound = taken.take

    def held(session_id: str, host_id: str) -> bool:
        if session_id == first.id:
            raise OperationalError("somebody holds its rows")
        return sound(session_id, host_id)

    with monkeypatch.context() as patch:
        patch.setattr(taken, "take", held)
        silent()
        assert turn() == 1
    assert turn() == 1, "the next turn takes it"
    assert set(Session.objects.values_list("runtime_state", flat=True)) == {"failed"}
    second.refresh_from_db()
    assert second.epoch == 2


def test_a_gateway_that_stands_still_in_the_middle_of_a_commit_keeps_no_session_of_its_host(
    fleet: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(_: str) -> int:
        raise OperationalError("it holds the row of its call")

    session = session_row(fleet.account, saved=True)
    GatewayProcess.objects.create(name="g", host_id=HOST, seen_at=Now() - LONG)
    monkeypatch.setattr("gateway_app.services.process.gone", held)
    silent()
    with pytest.raises(OperationalError):
        turn()
    session.refresh_from_db()
    assert (session.runtime_state, session.epoch) == ("failed", 2)


def test_a_death_in_the_middle_of_a_taking_leaves_the_session_whole(fleet: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_row(fleet.account, saved=True)
    save = ask_save(session)

    def die(*_: object, **__: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(recovery_policy, "recover", die)
        silent()
        assert turn() == 0
    session.refresh_from_db()
    save.refresh_from_db()
    assert (session.runtime_state, session.epoch, save.state) == ("running", 1, "queued")
    assert turn() == 1
