"""Exec: one command in the guest, bounded in time and output."""

from typing import Any

from sessions_app.errors import Cancelled, GuestSilent, MachineLost, ServiceError
from sessions_app.services import activity
from sessions_app.services.database import give_back_connection
from sessions_app.services.operation import require_state
from sessions_app.states import OperationKind
from workers.host import machines
from workers.machine.driver import ExecResult, MachineError
from workers.operations.work import Work

#: Bytes kept of each stream; what comes after is read, thrown away and told (`truncated`).
OUTPUT_LIMIT = 1 << 20


def run(work: Work) -> None:
    """The command's own failure is a success of the operation: its exit code says so. A command is never started twice."""
    session, wanted = work.session, work.operation.parameters
    require_state(session, OperationKind.EXEC)  # it may have been parked since the command was asked for
    machine = machines.machine_of(session)
    if machine is None:
        raise MachineLost(
            "The machine's process is gone. The command was not run.", next_action="Resume the session from its last checkpoint."
        )
    work.keeper.check()
    give_back_connection()  # a command may take an hour, and so may those beside it
    try:
        result = machine.exec(
            wanted["argv"], timeout_seconds=wanted["timeout_seconds"], output_limit=OUTPUT_LIMIT, cancelled=work.keeper.cancelled
        )
    except MachineError as error:
        raise _refusal(error) from error
    if result.cancelled:
        activity.touch(session)
        raise Cancelled("The command was ended.")
    work.insist(lambda: _tell(work, result))  # a command that came to its own end first has its outcome


def _tell(work: Work, result: ExecResult) -> None:
    activity.touch(work.session)
    work.succeed(_words(result))


def _refusal(error: MachineError) -> ServiceError:
    if error.code == "machine_dead":
        return MachineLost(f"The machine ended while the command ran: {error}", next_action="Resume the session from its last checkpoint.")
    return GuestSilent(
        f"The guest did not answer as it should: {error}. Whether the command had effects is not known.",
        next_action="Look at the machine's state; save it or resume it from its last checkpoint.",
    )


def _words(result: ExecResult) -> dict[str, Any]:
    stdout, stderr = _text(result.stdout), _text(result.stderr)
    return {
        "output": stdout + stderr,
        "error": _error(result),
        "exit_code": result.exit_code,
        "stdout": stdout,
        "stderr": stderr,
        "truncated": result.truncated,
        "timed_out": result.timed_out,
        "duration_seconds": round(result.duration_seconds, 3),
    }


def _error(result: ExecResult) -> str:
    """Empty for success: the published client's own exit code hangs on it."""
    if result.timed_out:
        return f"stopped at its time limit after {result.duration_seconds:.0f} s"
    if result.exit_code is None:
        return "ended by a signal"
    return "" if result.exit_code == 0 else f"exit status {result.exit_code}"


def _text(raw: bytes) -> str:
    """What JSON and PostgreSQL can carry: bytes that are not UTF-8, and NUL, become U+FFFD."""
    return raw.decode(errors="replace").replace("\x00", "\ufffd")
