"""What no host can take waits, is told of, and is placed in order of acceptance; what nobody has begun is placed anew."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import F

from checkpoints_app.models import Pin
from sessions_app.models import Operation, Session
from sessions_app.services import cancel, dispatch, fork, restore, waiting
from sessions_app.services import lease as leases
from sessions_app.services import session as sessions
from sessions_app.services.database import hold
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from sessions_app.states import OperationKind, SessionState
from tests.support.api import Caller
from tests.support.fleet import HOST, IMAGE, Tenant, session_row
from tests.support.threads import at_once
from workers.fleet.waiting import TURN, place_waiting
from workers.host import drain
from workers.host.liveness import silent_after
from workers.host.room import room
from workers.models import Host, HostPin

GIB = 1 << 30
Doorbells = list[tuple[str, ...]]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def small(owner: Tenant) -> None:
    Host.objects.update(offered_bytes=4 * GIB)


def boot(owner: Tenant, gib: int = 1) -> Operation:
    return sessions.create(owner.account, Wanted(image=IMAGE, memory_mib=gib << 10), Asked())


def resume(owner: Tenant, gib: int = 1) -> Operation:
    parked = session_row(owner.account, SessionState.PARKED, saved=True, host_id="", memory_bytes=gib * GIB)
    return sessions.resume(parked, checkpoint_id=None, asked=Asked())


def full(owner: Tenant) -> Session:
    return session_row(owner.account, memory_bytes=4 * GIB)


def another_host(name: str = "h-two") -> None:
    Host.objects.create(id=name, memory_bytes=GIB, offered_bytes=4 * GIB, cpus=2, boot_id="boot")
    HostPin.objects.create(host_id=name, pin=Pin.objects.get())


def silence(name: str = HOST) -> None:
    Host.objects.filter(id=name).update(heartbeat_at=F("heartbeat_at") - silent_after() - timedelta(seconds=1))


def older(operation: Operation, by: timedelta) -> None:
    Operation.objects.filter(id=operation.id).update(due_at=F("due_at") - by)


def placed(*operations: Operation) -> list[str]:
    return [Operation.objects.get(id=one.id).host_id for one in operations]


def park(session: Session) -> None:
    with transaction.atomic():
        sessions.move(session, [SessionState.RUNNING], SessionState.FAILED, source="test", type_="session.failed", host_id="")


def test_what_waits_is_not_rung_and_its_reader_is_told_why_and_since_when(owner: Tenant, api: Caller, doorbells: Doorbells) -> None:
    full(owner)
    operation = boot(owner)
    assert (operation.state, operation.host_id, doorbells) == ("queued", "", [])
    told = api("GET", f"/api/operations/{operation.id}").json()["data"]["progress"]["waiting"]
    assert told["for"] == "no_room"
    assert "full" in told["reason"]
    operation.refresh_from_db()
    assert told["since"] == operation.due_at.isoformat()
    assert leases.claim(operation.id, "a worker that heard a late doorbell") is None


def test_room_that_becomes_free_asks_for_the_turn_which_places_and_rings_what_waits(owner: Tenant, doorbells: Doorbells) -> None:
    session = full(owner)
    operation = boot(owner)
    park(session)
    assert (dispatch.FLEET, dispatch.CONTROL_QUEUE) in doorbells
    assert place_waiting() == 1
    assert placed(operation) == [HOST]
    assert doorbells[-1] == (dispatch.RUN_OPERATION, f"host.{HOST}", operation.id)
    operation.refresh_from_db()
    assert waiting.shown_progress(operation) == {}


def test_nobody_is_asked_for_a_turn_where_nothing_waits(owner: Tenant, doorbells: Doorbells) -> None:
    park(full(owner))
    assert doorbells == []


def test_the_end_of_draining_asks_for_the_turn(owner: Tenant, doorbells: Doorbells) -> None:
    drain.drain(Host.objects.get(), "op")
    operation = boot(owner)
    assert operation.waits_for == "draining"
    drain.take_work(Host.objects.get(), "op")
    assert doorbells == [(dispatch.FLEET, dispatch.CONTROL_QUEUE)]
    place_waiting()
    assert placed(operation) == [HOST]


def test_a_newcomer_stands_behind_what_waits(owner: Tenant) -> None:
    session = session_row(owner.account, memory_bytes=3 * GIB)
    first = boot(owner, 2)
    assert boot(owner, 1).host_id == HOST, "what is in front of it does not fit anyway"
    park(session)
    behind = boot(owner, 2)
    assert behind.waits_for == "no_room", "the room is for who came first, though it is not placed yet"
    place_waiting()
    assert placed(first, behind) == [HOST, ""]


def test_many_that_wait_for_the_same_hide_nobody_who_could_begin(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.host.line.LINE", 4)
    session = session_row(owner.account, memory_bytes=4 * GIB)
    large = [boot(owner, 4) for _ in range(6)]
    small = [boot(owner, 1) for _ in range(3)]
    another_host()
    Host.objects.filter(id="h-two").update(offered_bytes=3 * GIB)
    small.append(boot(owner, 1))
    assert small[-1].host_id == "", "two of its kind are seen in front of it, and there may be more"
    assert place_waiting() == 3
    assert placed(*large, *small) == [""] * 6 + ["h-two"] * 3 + [""]
    park(session)
    assert place_waiting() == 1
    assert placed(*large) == [HOST] + [""] * 5, "in order of acceptance among equals"


def test_what_a_host_that_drains_does_itself_hides_nothing_that_has_to_go_elsewhere(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.fleet.waiting.LINE", 2)
    kept = [boot(owner, 4), *(resume(owner, 0) for _ in range(2))]
    another_host()
    stuck = boot(owner, 1)
    assert placed(*kept, stuck) == [HOST, HOST, HOST, "h-two"]
    Host.objects.filter(id=HOST).update(draining=True)
    Operation.objects.filter(id__in=[one.id for one in kept]).update(due_at=F("due_at") - timedelta(minutes=1))
    silence("h-two")
    another_host("h-three")
    Host.objects.filter(id="h-three").update(offered_bytes=GIB)
    place_waiting()
    assert placed(stuck) == ["h-three"]


def test_small_ones_pass_a_large_one_until_it_has_waited_for_long(owner: Tenant, doorbells: Doorbells) -> None:
    session_row(owner.account, memory_bytes=2 * GIB)
    large, small = boot(owner, 3), boot(owner, 1)
    assert placed(large, small) == ["", HOST]
    older(large, waiting.longest() / 2)
    late = boot(owner, 1)
    assert late.waits_for == "no_room", "the host is kept for the large one"
    assert place_waiting() == 0
    another_host()
    assert place_waiting() == 2
    assert placed(large) == ["h-two"]


def test_two_turns_at_once_do_the_work_of_one(owner: Tenant) -> None:
    session = full(owner)
    operation = boot(owner)
    park(session)
    with transaction.atomic():
        hold(TURN)
        assert at_once(1, lambda _: place_waiting()) == [0]
    assert place_waiting() == 1
    assert placed(operation) == [HOST]


def test_a_boot_that_has_waited_too_long_fails_with_its_session_and_says_what_it_waited_for(owner: Tenant) -> None:
    full(owner)
    operation = boot(owner)
    older(operation, waiting.longest())
    assert place_waiting() == 1
    operation.refresh_from_db()
    operation.session.refresh_from_db()
    assert (operation.state, operation.session.runtime_state) == ("failed", "failed")
    assert operation.error is not None
    assert (operation.error["code"], operation.error["waited_for"]) == ("ks_fleet_unavailable", "no_room")
    assert "full" in operation.error["message"]


def test_a_resume_that_has_waited_too_long_leaves_its_session_parked(owner: Tenant) -> None:
    full(owner)
    operation = resume(owner)
    older(operation, waiting.longest())
    place_waiting()
    operation.session.refresh_from_db()
    assert operation.session.runtime_state == SessionState.PARKED
    assert not Operation.objects.filter(state="queued").exists()


def test_what_waits_keeps_its_session_busy_and_is_cancelled_at_once(owner: Tenant, api: Caller) -> None:
    full(owner)
    operation = resume(owner)
    assert api("POST", f"/api/sessions/{operation.session_id}/resume", {}).status_code == 409
    assert cancel.cancel(operation).state == "cancelled"
    assert place_waiting() == 0


@pytest.mark.parametrize("why", ["silent", "draining"])
def test_what_nobody_has_begun_on_a_host_that_takes_no_work_is_placed_anew(owner: Tenant, doorbells: Doorbells, why: str) -> None:
    operations = [boot(owner), resume(owner), _restore(owner), _fork(owner)]
    assert placed(*operations) == [HOST] * 4
    another_host()
    silence() if why == "silent" else Host.objects.filter(id=HOST).update(draining=True)
    doorbells.clear()
    assert place_waiting() == 4
    assert placed(*operations) == ["h-two"] * 4
    assert doorbells == [(dispatch.RUN_OPERATION, "host.h-two", one.id) for one in operations]
    assert leases.claim(operations[0].id, HOST, host_id=HOST) is None, "the first host hears its doorbell late"
    assert leases.claim(operations[0].id, "h-two", host_id="h-two") is not None


def test_without_another_host_it_waits_for_the_first_one(owner: Tenant, doorbells: Doorbells) -> None:
    operation = boot(owner)
    silence()
    place_waiting()
    operation.refresh_from_db()
    assert (operation.host_id, operation.waits_for) == ("", "no_host")
    Host.objects.update(heartbeat_at=F("heartbeat_at") + silent_after() + timedelta(seconds=1))
    place_waiting()
    assert placed(operation) == [HOST]


def test_a_host_that_drains_does_what_it_has_taken_on_where_no_other_can(owner: Tenant) -> None:
    operation = boot(owner)
    Host.objects.update(draining=True)
    assert place_waiting() == 0
    assert placed(operation) == [HOST]


def test_what_a_machine_that_runs_is_asked_stays_with_its_host(owner: Tenant) -> None:
    running = session_row(owner.account, saved=True)
    operation = sessions.resume(running, checkpoint_id=None, asked=Asked())
    another_host()
    silence()
    assert place_waiting() == 0
    assert placed(operation) == [HOST]


def test_an_attempt_that_died_with_its_host_is_made_on_another_one_and_the_dead_one_is_fenced(owner: Tenant) -> None:
    operation = boot(owner)
    late = leases.claim(operation.id, HOST, host_id=HOST)
    assert late is not None
    Session.objects.update(host_id=HOST, epoch=1)
    Operation.objects.update(lease_expires_at=F("lease_expires_at") - timedelta(hours=1))
    another_host()
    assert place_waiting() == 0, "its host is heard of, and tries again itself"
    silence()
    assert place_waiting() == 1
    operation.refresh_from_db()
    operation.session.refresh_from_db()
    assert (operation.host_id, operation.state, operation.session.host_id, operation.session.epoch) == ("h-two", "running", "h-two", 2)
    with pytest.raises(leases.LeaseLost):
        leases.renew(late)
    assert leases.claim(operation.id, "h-two", host_id="h-two") is not None
    assert room(Host.objects.filter(id="h-two")) == {"h-two": 3 * GIB}, "counted once"


def test_an_attempt_that_died_with_its_host_and_finds_no_other_ends_after_the_longest_wait(owner: Tenant) -> None:
    operation = boot(owner)
    leases.claim(operation.id, HOST, host_id=HOST)
    silence()
    Operation.objects.update(lease_expires_at=F("lease_expires_at") - timedelta(minutes=1))
    assert place_waiting() == 0
    Operation.objects.update(lease_expires_at=F("lease_expires_at") - waiting.longest())
    assert place_waiting() == 1
    operation.refresh_from_db()
    assert operation.error is not None
    assert (operation.state, operation.error["waited_for"]) == ("failed", "no_host")
    operation.session.refresh_from_db()
    assert operation.session.runtime_state == SessionState.FAILED, "its worker died before the session had a host: none would settle it"


def test_what_an_earlier_release_has_asked_of_a_pin_is_placed_if_nobody_hears_it(owner: Tenant) -> None:
    operation = boot(owner)
    Operation.objects.update(queue=dispatch.pin_queue(Pin.objects.get().digest), host_id="", reserved_bytes=0)
    assert place_waiting() == 0, "an older worker may hear it yet"
    older(operation, timedelta(minutes=1))
    assert place_waiting() == 1
    operation.refresh_from_db()
    assert (operation.host_id, operation.queue, operation.reserved_bytes) == (HOST, f"host.{HOST}", GIB)


def test_a_resume_that_is_bound_to_a_host_waits_for_that_one(owner: Tenant) -> None:
    another_host()
    full(owner)
    parked = session_row(owner.account, SessionState.PARKED, saved=True, host_id="")
    with transaction.atomic():
        operation = sessions.resume_unasked(parked, by="moved", host_id=HOST)
    place_waiting()
    operation.refresh_from_db()
    assert (operation.host_id, operation.waits_for) == ("", "no_room")


def _restore(owner: Tenant) -> Operation:
    parked = session_row(owner.account, SessionState.PARKED, saved=True, host_id="")
    wanted = restore.Wanted(parked.head_checkpoint_id, "back", parked.revision, parked.epoch)
    return restore.ask(parked, wanted, Asked())


def _fork(owner: Tenant) -> Operation:
    parked = session_row(owner.account, SessionState.PARKED, saved=True, host_id="")
    asked = fork.ask(parked, children=2, checkpoint_id=None, asked=Asked())
    assert asked.kind == OperationKind.FORK
    return asked
