"""Resume: a session's work goes on from a checkpoint, after everything about that checkpoint has been verified.

Nothing of a checkpoint that fails a check reaches the hypervisor, and a refusal leaves the session as it was.
"""

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from django.conf import settings

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint as checkpoints
from checkpoints_app.services import pin as pins
from checkpoints_app.services import verify
from checkpoints_app.store import BackendError
from sessions_app.errors import Cancelled, Conflict, IntegrityFailed, ServiceError, StackIncompatible, StartFailed
from sessions_app.services import session as sessions
from sessions_app.services import steps
from sessions_app.services.lease import LeaseLost
from sessions_app.states import ResumeMode, SessionState
from workers import crash
from workers.host import machines
from workers.host.drivers import driver
from workers.host.identity import host_id, machines_directory, runtime_directory
from workers.host.note import write_note
from workers.host.pins import pin_here
from workers.machine.driver import GuestIdentity, GuestImage, Machine, MachineError, MachineState
from workers.operations.clock import await_clock
from workers.operations.identity import identity_for
from workers.operations.reason import reason_of
from workers.operations.verification import trouble_of
from workers.operations.words import session_words
from workers.operations.work import Work
from workers.restore import touched
from workers.restore.images import Assembled, StoredContentMissing, assembled
from workers.restore.memory import ImageDamaged
from workers.restore.source import StoredContentBad

log = logging.getLogger(__name__)

LOAD_SECONDS = 60
GREET_SECONDS = 30
_INTACT = "The checkpoint is intact."
_AGAIN = "Resume again; if it repeats, tell the operator this operation's id."
_FROM = [SessionState.PARKED, SessionState.FAILED, SessionState.RECOVERY_REQUIRED, SessionState.RUNNING]


def run(work: Work) -> None:
    """On success: the guest answers, in a new epoch.

    On failure: no process of it is left, the checkpoint is untouched, the session can be resumed again.
    """
    began = time.perf_counter()
    try:
        _refuse_if_alive(work)
        checkpoint = checkpoints.restorable(work.session, work.operation.parameters["checkpoint_id"])
        _require_pin(work, checkpoint)
        _take_up(work, checkpoint)
        crash.reach("resume_claimed")
        try:
            _resume(work, checkpoint, began)
        except ImageDamaged:
            log.warning("a cached image was damaged; it is assembled again", extra={"checkpoint": checkpoint.id})
            _resume(work, checkpoint, began)
    except LeaseLost:
        raise
    except Exception as error:
        _give_back(work, error)
        raise


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


def _require_pin(work: Work, checkpoint: Checkpoint) -> None:
    here = pin_here(work.session.architecture)
    if here.digest == checkpoint.pin_id:
        return
    differing = pins.differences(checkpoint.pin.facts, here.facts)
    raise StackIncompatible(
        f"This host is not what the checkpoint was taken on; differing: {', '.join(differing)}. Nothing was started.",
        next_action="Resume it on a host with the checkpoint's pin.",
        facts={"differences": differing},
    )


def _resume(work: Work, checkpoint: Checkpoint, began: float) -> None:
    image = machines.image_of(work.session)
    with ExitStack() as stack:
        images = _assemble(work, checkpoint, stack)
        for reconcile in steps.reconcile:
            reconcile(work.session, checkpoint.id)
        work.next_epoch(host_id=host_id(), pin_digest=checkpoint.pin_id)
        runtime = runtime_directory(work.session.id, work.session.epoch)
        machines_directory().mkdir(parents=True, exist_ok=True)
        try:
            clock = _start(work, checkpoint, image, images, runtime, began)
        except BaseException as error:
            trouble = trouble_of(work.session, source=work.source) if images.lazy else None
            machines.end(runtime)  # its epoch is ours alone: whoever owns the operation now starts another
            if trouble is not None:
                raise trouble from error
            if isinstance(error, MachineError):
                images.confirm()  # a damaged image may be why
                what = f"The machine did not resume: {error} {_INTACT}"
                raise StartFailed(what, next_action=_AGAIN, facts={"reason": error.code}) from error
            raise
        touched.record(runtime, checkpoint.id)
        await_clock(work, clock)


def _start(work: Work, checkpoint: Checkpoint, image: GuestImage, images: Assembled, runtime: Path, began: float) -> Callable[[], None]:
    """The hypervisor starts while a cached image is still being compared with its sum; no virtual CPU runs before that is done.

    Returns what waits for the guest's clock. The commit comes last: the machine is ended for what fails before it, and for nothing later.
    """
    machine = driver().resume(runtime, machines.spec_of(work.session), image, images.saved, timeout_seconds=LOAD_SECONDS)
    write_note(runtime, checkpoint=checkpoint.id, overlay="", images=images.names, lazy=images.lazy)
    crash.reach("loaded")
    images.confirm()
    running, clock = _wake(work, machine, identity_for(checkpoint), began)
    _commit(work, checkpoint, images, running, time.perf_counter() - began)
    return clock


def _assemble(work: Work, checkpoint: Checkpoint, stack: ExitStack) -> Assembled:
    mode = work.operation.parameters.get("mode") or settings.KEEPSTATE_RESUME
    try:
        images = stack.enter_context(assembled(checkpoint, work.keeper.check, lazily=mode == ResumeMode.LAZY))
    except StoredContentBad as error:
        verify.refused(checkpoint, error.__cause__ or error, source=work.source)
        raise _content_refused(checkpoint, error) from error
    except (BackendError, OSError) as error:
        raise _not_assembled(error) from error
    crash.reach("images_ready")
    return images


def _content_refused(checkpoint: Checkpoint, error: StoredContentBad) -> IntegrityFailed:
    older = checkpoints.newest_before(checkpoint)
    next_action = f"Resume from the newest valid one before it: {older.id}." if older else "No older valid checkpoint exists."
    if isinstance(error, StoredContentMissing):
        next_action += " Or tell the operator: the object may come back; if it does not, the next scrub marks what needs it as corrupt."
    return IntegrityFailed(
        f"The checkpoint {checkpoint.id} is refused: {error} No hypervisor was started.",
        next_action=next_action,
        facts={"checkpoint_id": checkpoint.id, "newest_valid_checkpoint_id": older.id if older else None},
    )


def _not_assembled(error: BackendError | OSError) -> StartFailed:
    reason = reason_of(error)
    if reason == "no_space":
        what = "This host has no room for the checkpoint's images."
        next_action = "Free space on the host or tell the operator, then resume again."
    else:
        what = "The checkpoint's images could not be read or assembled here."
        what += f" {str(error).rstrip('.')}." if isinstance(error, BackendError) else ""
        next_action = _AGAIN
    what += " No hypervisor was started, and the checkpoint was not judged."
    return StartFailed(what, next_action=next_action, facts={"reason": reason})


def _wake(work: Work, machine: Machine, identity: GuestIdentity | None, began: float) -> tuple[float, Callable[[], None]]:
    """Let the machine run and greet its guest; one that does not take what it is told then does not count as running.

    Returns the seconds until its virtual CPUs ran, and what waits for its clock.
    """
    work.keeper.check()
    machine.run()
    running = time.perf_counter() - began
    crash.reach("running")
    clock = machine.greet(GREET_SECONDS, identity)
    crash.reach("greeted")
    return running, clock


def _commit(work: Work, checkpoint: Checkpoint, images: Assembled, running: float, answered: float) -> None:
    with work.fenced():
        sessions.move(
            work.session,
            [SessionState.RESUMING],
            SessionState.RUNNING,
            source=work.source,
            type_="session.resumed",
            payload={"checkpoint_id": checkpoint.id},
            head_checkpoint_id=checkpoint.id,
            head_checkpoint_at=checkpoint.published_at,
            park_reason="",
            verifying=bool(images.lazy),
        )
        figures: dict[str, Any] = {
            "checkpoint_id": checkpoint.id,
            "images_from": images.origin,
            "verifying": bool(images.lazy),
            "running_seconds": round(running, 4),
            "answered_seconds": round(answered, 4),
        }
        work.succeed({**session_words(work.session), **figures})


def _give_back(work: Work, error: Exception) -> None:
    """No machine runs: a session that was taken up is parked again, at the head it had."""
    told = error.message if isinstance(error, ServiceError) else "The resume failed inside KeepState."
    what = "resume_cancelled" if isinstance(error, Cancelled) else "resume_failed"
    with work.fenced(cancellable=False):
        work.session.refresh_from_db()
        if work.session.runtime_state == SessionState.RESUMING:
            sessions.move(
                work.session,
                [SessionState.RESUMING],
                SessionState.PARKED,
                source=work.source,
                type_=f"session.{what}",
                payload={"reason": told},
                host_id="",
                park_reason=what,
            )
