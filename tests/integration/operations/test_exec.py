"""Exec: one command in the guest, whose failure is its own."""

from typing import Any

import pytest

from sessions_app.models import Session
from tests.integration.operations.world import World, error_of, guest, live_machines, pid_of, runs, succeeded
from workers.machine.driver import ExecResult
from workers.machine.fake.machine import FakeMachine
from workers.operations import execute
from workers.operations.execute import OUTPUT_LIMIT


def test_a_command_answers_with_its_streams_and_its_code(world: World, session: Session) -> None:
    operation = succeeded(world.ask_exec(session, "sh", "-c", "echo out; echo err >&2; exit 3"))
    assert operation.response is not None
    said = operation.response
    assert (said["stdout"], said["stderr"], said["exit_code"], said["error"]) == ("out\n", "err\n", 3, "exit status 3")
    assert said["output"] == "out\nerr\n"
    assert (said["truncated"], said["timed_out"]) == (False, False)


def test_output_is_cut_at_its_limit_and_says_so(world: World, session: Session) -> None:
    operation = succeeded(world.ask_exec(session, "sh", "-c", f"head -c {OUTPUT_LIMIT + 10} /dev/zero | tr '\\0' x"))
    assert operation.response is not None
    assert len(operation.response["stdout"]) == OUTPUT_LIMIT
    assert operation.response["truncated"] is True


def test_a_command_is_stopped_at_its_time_limit_and_says_so(world: World, session: Session) -> None:
    operation = succeeded(world.ask_exec(session, "sleep", "60", seconds=1))
    assert operation.response is not None
    assert operation.response["timed_out"] is True
    assert operation.response["exit_code"] is None
    assert "time limit" in operation.response["error"]


def test_output_that_is_not_text_is_carried_as_text(world: World, session: Session) -> None:
    operation = succeeded(world.ask_exec(session, "printf", "a\\000b\\377c"))
    assert operation.response is not None
    assert operation.response["stdout"] == "a\ufffdb\ufffdc"


def test_a_silent_guest_is_told_as_such_and_its_machine_runs_on(world: World, session: Session) -> None:
    world.faults.silent_guest = True
    error = error_of(world.ask_exec(session, "true"))
    assert error["code"] == "ks_guest_silent"
    assert runs(session)


def test_a_machine_that_is_gone_ran_nothing_and_says_so(world: World, session: Session) -> None:
    world.kill(session)
    error = error_of(world.ask_exec(session, "true"))
    assert error["code"] == "ks_machine_lost"
    assert "was not run" in str(error["message"])


def test_a_machine_that_dies_under_the_command_is_lost(world: World, session: Session) -> None:
    pid = pid_of(session)
    operation = world.ask_exec(session, "sh", "-c", f"kill -9 {pid}; sleep 60")
    error = error_of(operation)
    assert error["code"] == "ks_machine_lost"
    assert live_machines() == []


def test_a_command_asked_for_before_a_stop_is_refused_after_it(world: World, session: Session) -> None:
    operation = world.ask_exec(session, "touch", "effect")
    world.save(session, stop=True)
    error = error_of(operation)
    assert error["code"] == "ks_session_not_running"
    world.resume(session)
    assert guest(session, "ls") == ""


def test_a_save_is_possible_while_a_command_runs(world: World, session: Session) -> None:
    guest(session, "(while [ ! -e stop ]; do :; done; echo ended > done) >/dev/null 2>&1 </dev/null & echo started")
    world.save(session)
    guest(session, "touch stop; while [ ! -e done ]; do :; done")
    assert guest(session, "cat done") == "ended"


def test_a_command_holds_no_database_connection_while_it_runs(world: World, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool has fewer connections than a worker has commands and leases to keep."""
    order = list[str]()
    run_in_guest = FakeMachine.exec

    def watched(machine: FakeMachine, argv: list[str], **bounds: Any) -> ExecResult:
        order.append("exec")
        return run_in_guest(machine, argv, **bounds)

    monkeypatch.setattr(FakeMachine, "exec", watched)
    monkeypatch.setattr(execute, "give_back_connection", lambda: order.append("given back"))
    succeeded(world.ask_exec(session, "true"))
    assert order == ["given back", "exec"]
