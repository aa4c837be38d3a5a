"""Resume: a session's work goes on from a checkpoint.

A refusal leaves the session as it was; a checkpoint that its history does not reach leaves it `recovery_required`.
"""

import time
from typing import Any

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint as checkpoints
from sessions_app.errors import Cancelled, Conflict, RecoveryRequired, ServiceError
from sessions_app.services import session as sessions
from sessions_app.services import steps
from sessions_app.states import SessionState
from workers import crash
from workers.host import machines
from workers.host.identity import host_id
from workers.machine.driver import MachineState
from workers.operations import moving, waking
from workers.operations.work import LEFT_TO_THE_NEXT, Work

_FROM = [SessionState.PARKED, SessionState.FAILED, SessionState.RECOVERY_REQUIRED, SessionState.RUNNING]


def run(work: Work) -> None:
    """On success: the guest answers, in a new epoch.

    On failure: no process of it is left, the checkpoint is untouched, the session can be resumed again.
    """
    began = time.perf_counter()
    try:
        _refuse_if_alive(work)
        checkpoint = checkpoints.restorable(work.session, work.operation.parameters["checkpoint_id"])
        waking.require_pin(work, checkpoint)
        _take_up(work, checkpoint)
        crash.reach("resume_claimed")
        waking.wake(
            waking.Waking(
                work,
                checkpoint,
                began,
                event="session.resumed",
                ready=lambda: _reconcile(work, checkpoint),
                facts=dict,
                told=lambda figures: _told(work, figures),
            )
        )
    except LEFT_TO_THE_NEXT:
        raise
    except RecoveryRequired as error:
        _require_recovery(work, error)
        raise
    except Exception as error:
        told = error.message if isinstance(error, ServiceError) else "The resume failed inside KeepState."
        waking.give_back(work, "resume_cancelled" if isinstance(error, Cancelled) else "resume_failed", told)
        raise


def _told(work: Work, figures: dict[str, Any]) -> None:
    work.succeed(figures)
    moving.arrived(work, figures)


def _refuse_if_alive(work: Work) -> None:
    """`running` is what the row remembers; whether the machine lives is asked now."""
    session = work.session
    machine = machines.machine_of(session)
    if machine is not None and session.runtime_state == SessionState.RUNNING and machine.inspect().state != MachineState.DEAD:
        raise Conflict(
            "The session is running already. Nothing was started.",
            next_action="Use it; or save and stop it first.",
            facts={"runtime_state": session.runtime_state},
        )
    work.keeper.check_lease()
    machines.end_all(session.id, until_epoch=session.epoch)
    work.keeper.check()


def _take_up(work: Work, checkpoint: Checkpoint) -> None:
    """A later attempt finds the session `resuming` already."""
    if work.session.runtime_state == SessionState.RESUMING:
        return
    with work.fenced():
        sessions.move(
            work.session,
            _FROM,
            SessionState.RESUMING,
            source=work.source,
            type_="session.resuming",
            host_id=host_id(),
            failure=None,
            payload={"checkpoint_id": checkpoint.id},
        )


def _reconcile(work: Work, checkpoint: Checkpoint) -> None:
    for reconcile in steps.reconcile:
        reconcile(work.session, checkpoint.id)


def _require_recovery(work: Work, error: RecoveryRequired) -> None:
    """Not parked: a resume that is asked for again would meet the same, until somebody has decided."""
    with work.fenced(cancellable=False):
        work.session.refresh_from_db()
        sessions.move(
            work.session,
            [SessionState.RESUMING],
            SessionState.RECOVERY_REQUIRED,
            source=work.source,
            type_="session.recovery_required",
            payload={"reason": error.message, **error.facts},
            failure=error.as_dict(),
            host_id="",
        )
