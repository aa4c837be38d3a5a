"""What a machine whose memory streams in behind it is allowed, and what becomes of it when that fails.

It runs on verified bytes alone. But nothing of it is published before every byte that it was saved with has been verified; and where one
cannot be, or the process that serves them is gone, its machine is ended and its session fails.
"""

import logging
import time
from typing import Any

from django.db.models import F

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint as checkpoints
from checkpoints_app.services import verify
from sessions_app.errors import IntegrityFailed, MachineLost, ServiceError, StillVerifying
from sessions_app.models import Session
from workers.host import lazy
from workers.host.identity import runtime_directory
from workers.host.note import read_note
from workers.lazy import status
from workers.lazy.status import State
from workers.operations.work import Work

log = logging.getLogger(__name__)

WAIT_SECONDS = 60.0  # a save waits so long for the rest of what its machine was resumed from
_LOOK_SECONDS = 0.05
_AGAIN = "Resume the session from its last checkpoint."


def await_verified(work: Work) -> ServiceError | None:
    """Return None once every byte under the session's machine is verified; or what ended that, and the machine can not go on.

    Raises StillVerifying when the time is over. The row is told what was found.
    """
    runtime = runtime_directory(work.session.id, work.session.epoch)
    deadline = time.monotonic() + WAIT_SECONDS
    while (stands := lazy.look(runtime)) is not None and stands["state"] == State.STREAMING:
        if time.monotonic() > deadline:
            raise StillVerifying(
                "The session runs, but what it was resumed from has not all been verified yet. Nothing was saved.",
                next_action="Save again when the session is not `verifying` any more.",
            )
        work.keeper.check()
        time.sleep(_LOOK_SECONDS)
    trouble = _trouble(work.session, stands, source=work.source)
    if trouble is None:
        told(work.session)
    return trouble


def trouble_of(session: Session, *, source: str) -> ServiceError | None:
    """Why the session's machine must not go on, where its memory cannot all be had; the checkpoint that is to blame is marked. Else None,
    and the row is told if nothing is left to verify.
    """
    stands = lazy.look(runtime_directory(session.id, session.epoch))
    trouble = _trouble(session, stands, source=source)
    if trouble is None and session.verifying and (stands is None or stands["state"] == State.COMPLETE):
        told(session)
    return trouble


def told(session: Session) -> None:
    """All is verified. Harmless for a session of which that is known."""
    Session.objects.filter(id=session.id, epoch=session.epoch, verifying=True).update(verifying=False, revision=F("revision") + 1)


def _trouble(session: Session, stands: dict[str, Any] | None, *, source: str) -> ServiceError | None:
    if stands is None or stands["state"] in (State.STREAMING, State.COMPLETE):
        return None
    note = read_note(runtime_directory(session.id, session.epoch))
    checkpoint = Checkpoint.objects.filter(id=note.get("checkpoint", ""), session=session).first()
    error = status.raised(stands)
    if error is None or checkpoint is None:
        what = stands.get("text", "the process that served it ended")
        log.error("a machine lost what its memory came from", extra={"session_id": session.id, "reason": what})
        return MachineLost(f"The machine was ended: its memory was still streaming in, and {what}.", next_action=_AGAIN)
    verify.refused(checkpoint, error, source=source)
    older = checkpoints.newest_before(checkpoint)
    return IntegrityFailed(
        f"The checkpoint {checkpoint.id} is refused: {error} The machine that had been started from it was ended before it read that, "
        "and nothing that it did was saved.",
        next_action=f"Resume from the newest valid one before it: {older.id}." if older else "No older valid checkpoint exists.",
        facts={"checkpoint_id": checkpoint.id, "newest_valid_checkpoint_id": older.id if older else None},
    )
