"""A session moves to another host: saved and stopped here, resumed there, and never left without a machine or a resume."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from pytest_django.fixtures import Settings

from sessions_app.errors import Conflict, FleetUnavailable
from sessions_app.models import Operation, ServiceRecord, Session
from sessions_app.states import OPERATION_ACTIVE
from tests.integration.operations.world import HOST, OTHER, Died, World, done, events, expire, guest, live_machines, machine_of, succeeded
from workers.fleet import moves
from workers.fleet.again import try_again
from workers.fleet.moves import move_on, staying
from workers.host import drain
from workers.host.register import register
from workers.models import Host, HostPin
from workers.operations.settle import settle_host
from workers.sweep import sweep


def draining() -> Host:
    here = Host.objects.get(id=HOST)
    drain.drain(here, "op", move=True)
    return Host.objects.get(id=HOST)


def asked(session: Session) -> Operation:
    return Operation.objects.get(session=session, state__in=OPERATION_ACTIVE)


def work_through(session: Session, be: Callable[[str], None]) -> None:
    """Whatever is asked of the session is done on the host that it was placed on."""
    while Operation.objects.filter(session=session, state__in=OPERATION_ACTIVE).exists():
        operation = asked(session)
        be(operation.host_id)
        succeeded(operation)
    session.refresh_from_db()


def moved(session: Session) -> dict[str, object]:
    payload: dict[str, object] = session.events.get(type="session.moved").payload
    return payload


def test_a_host_that_drains_and_moves_gives_its_sessions_to_another_with_their_memory(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    guest(session, "echo kept > note")
    draining()
    assert move_on() == 1
    work_through(session, at_host)
    assert (session.runtime_state, session.host_id, session.epoch) == ("running", OTHER, 2)
    assert guest(session, "cat note") == "kept"
    assert events(session)[-4:] == ["session.parked", "session.resuming", "session.resumed", "session.moved"]
    told = moved(session)
    assert (told["stored_bytes"], told["fetched_bytes"]) == (session.checkpoints.get().stored_bytes, None)  # the store is a directory here
    assert isinstance(told["seconds_away"], float)
    recorded = ServiceRecord.objects.get(type="session.moved").facts
    assert (recorded["from"], recorded["to"], recorded["stored_bytes"]) == (HOST, OTHER, told["stored_bytes"])
    assert move_on() == 0


def test_the_save_and_the_resume_elsewhere_are_one_commit(world: World, session: Session, at_host: Callable[[str], None]) -> None:
    draining()
    move_on()
    save = asked(session)
    world.die_at("published")
    with pytest.raises(Died):
        done(save)
    assert asked(session) == save
    expire(save)
    succeeded(save)
    resume = asked(session)
    assert (resume.kind, resume.host_id, resume.parameters["by"]) == ("resume", OTHER, "moved")
    assert live_machines() == []


def test_a_session_that_no_other_host_can_take_runs_on_and_it_is_told_why(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    here = draining()
    HostPin.objects.filter(host_id=OTHER).delete()
    assert move_on() == 0
    assert staying(here)[0].why.startswith("no other host has its pin")
    with pytest.raises(FleetUnavailable, match="It runs on"):
        moves.ask(session)
    register_other(at_host)
    Host.objects.filter(id=OTHER).update(offered_bytes=1)
    assert move_on() == 0
    assert staying(here)[0].why == f"no room for 128 MiB on {OTHER}"
    Host.objects.filter(id=OTHER).update(draining=True)
    assert staying(here)[0].why == f"the other hosts with its pin take no work: {OTHER}"
    assert machine_of(session).inspect().state.value == "running"


def register_other(be: Callable[[str], None]) -> None:
    be(OTHER)
    register()
    be(HOST)


def test_a_session_whose_place_was_taken_while_it_was_saved_goes_on_where_it_was(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    draining()
    move_on()
    world.at("before_publish", lambda: Host.objects.filter(id=OTHER).update(offered_bytes=1))
    work_through(session, at_host)
    assert (session.runtime_state, session.host_id) == ("running", HOST)
    assert why_it_stayed(session).startswith("no other host could take it")


def test_a_session_that_goes_on_where_it_was_because_its_resume_elsewhere_failed_says_so(
    world: World, session: Session, at_host: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.fleet.again.DISTANCES", [timedelta(0)])
    moves.ask(session)
    succeeded(asked(session))
    at_host(OTHER)
    world.faults.resume_fails = "broken"
    assert done(asked(session)).state == "failed"
    Host.objects.filter(id=OTHER).update(offered_bytes=1)
    assert try_again() == 1
    world.faults.resume_fails = None
    work_through(session, at_host)
    assert session.host_id == HOST
    assert why_it_stayed(session).startswith("its resume on another host failed")


def why_it_stayed(session: Session) -> str:
    assert events(session)[-1] == "session.move_failed"
    return str(session.events.get(type="session.move_failed").payload["reason"])


def test_a_session_in_which_a_command_runs_waits_and_is_cut_off_after_long_enough(
    world: World, session: Session, at_host: Callable[[str], None], settings: Settings
) -> None:
    command = world.ask_exec(session, "true")
    here = draining()
    assert move_on() == 0
    assert staying(here)[0].why == "a command runs in it"
    with pytest.raises(Conflict, match="A command runs"):
        moves.ask(session)
    settings.KEEPSTATE_MOVE_PATIENCE_SECONDS = 0
    assert move_on() == 1
    succeeded(asked_save(session))
    assert done(command).error is not None


def asked_save(session: Session) -> Operation:
    return Operation.objects.get(session=session, kind="checkpoint", state="queued")


def test_a_command_that_came_after_the_move_was_asked_for_is_waited_for(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    moves.ask(session, to=OTHER)
    command = world.ask_exec(session, "echo", "answered")
    assert done(asked_save(session)).state == "cancelled"
    assert succeeded(command).response["stdout"] == "answered\n"  # type: ignore[index]


def test_a_move_whose_save_failed_is_tried_again_later_and_not_for_ever(
    world: World, session: Session, at_host: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = draining()
    world.faults.capture_fails_at = "pages"
    for _ in range(moves.MOST_TRIES):
        monkeypatch.setattr(moves, "AGAIN", timedelta(0))
        assert move_on() == 1
        assert done(asked(session)).state == "failed"
        monkeypatch.setattr(moves, "AGAIN", timedelta(seconds=30))
        assert move_on() == 0
    assert "is not tried again" in staying(here)[0].why
    world.faults.capture_fails_at = None
    assert guest(session, "echo lives") == "lives"


def test_only_a_few_sessions_of_a_host_move_at_a_time(world: World, at_host: Callable[[str], None]) -> None:
    Host.objects.filter(id=OTHER).update(draining=True)
    for _ in range(moves.AT_A_TIME + 1):
        world.boot()
    Host.objects.filter(id=OTHER).update(draining=False)
    draining()
    assert [move_on(), move_on()] == [moves.AT_A_TIME, 0]


def test_a_session_that_its_host_parked_in_the_middle_of_a_move_is_brought_back(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    moves.ask(session, to=OTHER)
    save = asked(session)
    Operation.objects.filter(id=save.id).update(max_attempts=1)
    world.die_at("published")
    with pytest.raises(Died):
        done(save)
    expire(save)
    sweep()
    settle_host()
    assert move_on() == 1
    work_through(session, at_host)
    assert (session.runtime_state, session.host_id) == ("running", OTHER)


def test_a_resume_that_failed_there_is_asked_for_again_and_one_that_its_owner_cancelled_is_not(
    world: World, session: Session, at_host: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.fleet.again.DISTANCES", [timedelta(0)])
    moves.ask(session, to=OTHER)
    succeeded(asked(session))
    at_host(OTHER)
    world.faults.resume_fails = "broken"
    assert done(asked(session)).state == "failed"
    assert try_again() == 1
    Operation.objects.filter(id=asked(session).id).update(state="cancelled")
    assert (try_again(), move_on()) == (0, 0)
