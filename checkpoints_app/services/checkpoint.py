"""Checkpoints before they are published: begun, failed, looked up; and what happens when one turns out corrupt."""

from typing import Any

from django.db import transaction

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import integrity
from checkpoints_app.states import CHECKPOINT_UNFINISHED, CheckpointState
from sessions_app.errors import NotRestorable
from sessions_app.models import Session
from sessions_app.services import event
from sessions_app.services.lease import Lease


def begin(session: Session, lease: Lease, *, reason: str, boundary: str) -> Checkpoint:
    """A row `capturing`, stamped with the token that may publish it. Prerequisite: inside a fenced transaction."""
    return Checkpoint.objects.create(
        account_id=session.account_id,
        session=session,
        parent_id=session.head_checkpoint_id or None,
        operation_id=lease.operation_id,
        lease_token=lease.token,
        pin_id=session.pin_digest,  # of the process that runs, whatever the host has become since
        image_digest=session.image_digest,
        source_epoch=session.epoch,
        reason=reason,
        boundary=boundary,
        event_watermark=session.event_count,
    )


def uploading(checkpoint: Checkpoint, *, pause_seconds: float, written_bytes: int) -> None:
    """The moment is captured; `checkpoint.watermarks` were drawn at it."""
    Checkpoint.objects.filter(id=checkpoint.id, state=CheckpointState.CAPTURING).update(
        state=CheckpointState.UPLOADING, pause_seconds=pause_seconds, written_bytes=written_bytes, watermarks=checkpoint.watermarks
    )


def fail_unfinished(session_id: str, operation_id: str | None, failure: dict[str, Any], *, source: str) -> int:
    """Mark what an ended or lost attempt of this operation (None: of any) began as failed. Published rows are never touched."""
    with transaction.atomic():
        rows = Checkpoint.objects.select_for_update().filter(session_id=session_id, state__in=CHECKPOINT_UNFINISHED)
        found = list(rows if operation_id is None else rows.filter(operation_id=operation_id))
        for row in found:
            Checkpoint.objects.filter(id=row.id).update(state=CheckpointState.FAILED, failure=failure)
            event.append(
                session_id, "checkpoint.failed", {"reason": failure.get("message", "")}, source=source, subject=("checkpoint", row.id)
            )
        return len(found)


def published_by(operation_id: str) -> Checkpoint | None:
    """What an earlier attempt of the operation published before it died, if it did."""
    return Checkpoint.objects.filter(operation_id=operation_id, state=CheckpointState.PUBLISHED).first()


def restorable(session: Session, checkpoint_id: str) -> Checkpoint:
    """Raises NotRestorable, naming the checkpoint's state."""
    checkpoint = Checkpoint.objects.select_related("pin").filter(session=session, id=checkpoint_id).first()
    if checkpoint is None or checkpoint.state != CheckpointState.PUBLISHED:
        state = checkpoint.state if checkpoint else "unknown"
        raise NotRestorable(
            f"The checkpoint {checkpoint_id} is {state}, not valid. Nothing was started.",
            next_action=f"Name a checkpoint that is valid: GET /api/v2/sessions/{session.id}/checkpoints.",
        )
    return checkpoint


def newest_before(checkpoint: Checkpoint) -> Checkpoint | None:
    """The newest valid checkpoint of the session that is older than this one: what a refusal may point to."""
    older = Checkpoint.objects.filter(
        session_id=checkpoint.session_id, state=CheckpointState.PUBLISHED, created_at__lt=checkpoint.created_at
    )
    return older.order_by("-created_at").first()


def mark_corrupt(checkpoint: Checkpoint, detail: str, *, source: str) -> None:
    """It is refused from now on. Nothing of it is deleted."""
    with transaction.atomic():
        integrity.mark(checkpoint.id, detail, {}, source=source)
