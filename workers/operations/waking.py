"""A machine goes on from a checkpoint, after everything about that checkpoint has been verified: what a resume and a restore share.

Nothing of a checkpoint that fails a check reaches the hypervisor.
"""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from django.conf import settings

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint as checkpoints
from checkpoints_app.services import pin as pins
from checkpoints_app.services import verify
from checkpoints_app.store import BackendError
from sessions_app.errors import IntegrityFailed, StackIncompatible, StartFailed, StartUnavailable
from sessions_app.models import Session
from sessions_app.services import session as sessions
from sessions_app.services import steps
from sessions_app.states import ResumeMode, SessionState
from workers import crash
from workers.cache import known
from workers.host import machines
from workers.host.drivers import driver
from workers.host.identity import host_id, machines_directory, runtime_directory
from workers.host.note import write_note
from workers.host.pins import has_network, pin_here, resumable_here
from workers.machine.driver import GuestIdentity, GuestImage, Machine, MachineError
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


@dataclass(frozen=True)
class Waking:
    """One operation's way from a checkpoint to a machine that runs.

    `ready` is called once all is verified and before the new epoch begins: what has to hold or to happen by then. `told` is called inside
    the commit that makes the session run, with the figures of the way, and writes the operation's success.
    """

    work: Work
    checkpoint: Checkpoint
    began: float
    event: str
    ready: Callable[[], None]
    facts: Callable[[], dict[str, Any]]
    told: Callable[[dict[str, Any]], None]


def require_pin(work: Work, checkpoint: Checkpoint) -> None:
    here = pin_here(work.session.architecture)
    if here.digest == checkpoint.pin_id or not has_network(checkpoint.pin_id, work.session.architecture):
        return
    compared = (pins.differences(checkpoint.pin.facts, pin.facts) for pin in resumable_here(work.session.architecture))
    differing = min(compared, key=len)  # what its own kind of machine lacks here, and not also that its kind is another
    raise StackIncompatible(
        f"This host is not what the checkpoint was taken on; differing: {', '.join(differing)}. Nothing was started.",
        next_action="Resume it on a host with the checkpoint's pin.",
        facts={"differences": differing},
    )


def wake(way: Waking) -> None:
    """On success the guest answers in a new epoch, and the session runs. On failure no process of it is left."""
    try:
        _wake(way)
    except ImageDamaged:
        log.warning("a cached image was damaged; it is assembled again", extra={"checkpoint": way.checkpoint.id})
        _wake(way)


def _wake(way: Waking) -> None:
    work, checkpoint = way.work, way.checkpoint
    image = machines.image_of(work.session)
    with ExitStack() as stack:
        images = _assemble(work, checkpoint, stack)
        way.ready()
        work.next_epoch(partial(_begin_epoch, checkpoint), host_id=host_id(), pin_digest=checkpoint.pin_id)
        runtime = runtime_directory(work.session.id, work.session.epoch)
        machines_directory().mkdir(parents=True, exist_ok=True)
        try:
            clock = _start(way, image, images, runtime)
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
        if not images.lazy:
            known.tell(checkpoint.memory_root)
        await_clock(work, clock)


def _begin_epoch(checkpoint: Checkpoint, session: Session) -> None:
    for begin in steps.epoch_begins:
        begin(session, checkpoint.id)


def _start(way: Waking, image: GuestImage, images: Assembled, runtime: Path) -> Callable[[], None]:
    """The hypervisor starts while a cached image is still being compared with its sum; no virtual CPU runs before that is done.

    Returns what waits for the guest's clock. The commit comes last: the machine is ended for what fails before it, and for nothing later.
    """
    work, checkpoint = way.work, way.checkpoint
    spec = machines.spec_of(work.session, network=has_network(checkpoint.pin_id, work.session.architecture))
    machine = driver().resume(runtime, spec, image, images.saved, timeout_seconds=LOAD_SECONDS)
    write_note(runtime, checkpoint=checkpoint.id, overlay="", images=images.names, lazy=images.lazy)
    crash.reach("loaded")
    images.confirm()
    running, clock = _greet(way, machine, identity_for(checkpoint))
    _commit(way, images, running, perf_counter() - way.began)
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
    kind = StartUnavailable if reason == "unavailable" else StartFailed
    return kind(what, next_action=next_action, facts={"reason": reason})


def _greet(way: Waking, machine: Machine, identity: GuestIdentity | None) -> tuple[float, Callable[[], None]]:
    """Let the machine run and greet its guest; one that does not take what it is told then does not count as running.

    Returns the seconds until its virtual CPUs ran, and what waits for its clock.
    """
    way.work.keeper.check()
    machine.run()
    running = perf_counter() - way.began
    crash.reach("running")
    clock = machine.greet(GREET_SECONDS, identity)
    crash.reach("greeted")
    return running, clock


def _commit(way: Waking, images: Assembled, running: float, answered: float) -> None:
    work, checkpoint = way.work, way.checkpoint
    with work.fenced():
        sessions.move(
            work.session,
            [SessionState.RESUMING],
            SessionState.RUNNING,
            source=work.source,
            type_=way.event,
            payload={"checkpoint_id": checkpoint.id, **way.facts()},
            head_checkpoint_id=checkpoint.id,
            head_checkpoint_at=checkpoint.published_at,
            park_reason="",
            verifying=bool(images.lazy),
        )
        figures: dict[str, Any] = {
            "checkpoint_id": checkpoint.id,
            "images_from": images.origin,
            "fetched_bytes": images.fetched_bytes,
            "verifying": bool(images.lazy),
            "running_seconds": round(running, 4),
            "answered_seconds": round(answered, 4),
        }
        way.told({**session_words(work.session), **figures})


def give_back(work: Work, what: str, reason: str, **facts: Any) -> None:
    """No machine runs: a session that was taken up is parked again, at the head it had. `what` names the event, and why it is parked."""
    with work.fenced(cancellable=False):
        work.session.refresh_from_db()
        if work.session.runtime_state == SessionState.RESUMING:
            sessions.move(
                work.session,
                [SessionState.RESUMING],
                SessionState.PARKED,
                source=work.source,
                type_=f"session.{what}",
                payload={"reason": reason, **facts},
                host_id="",
                park_reason=what,
            )
