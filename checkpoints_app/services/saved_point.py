"""Checkpoints as values, for what is asked of a session by naming one: a fork, a restore, the comparison with its history."""

from checkpoints_app.models import Checkpoint
from checkpoints_app.states import CheckpointState
from sessions_app.errors import Conflict, NotFound, NotRestorable
from sessions_app.models import Session
from sessions_app.services.steps import LaterWork, SavedPoint

#: What was published and is not being erased: a restore of an earlier one leaves it, whole or not.
_PUBLISHED = (CheckpointState.PUBLISHED, CheckpointState.CORRUPT)


def find(session: Session, checkpoint_id: str) -> SavedPoint:
    """Raises NotFound for what is no checkpoint of the account, Conflict for another session's, NotRestorable naming the state."""
    row = Checkpoint.objects.filter(account_id=session.account_id, id=checkpoint_id[:40]).first()
    list_them = f"Name one that is valid: GET /api/v2/sessions/{session.id}/checkpoints."
    if row is None:
        raise NotFound("There is no such checkpoint. Nothing was started.", next_action=list_them)
    if row.session_id != session.id:
        raise Conflict(
            f"The checkpoint {row.id} is another session's. Nothing was started.",
            next_action=list_them,
            facts={"checkpoint_id": row.id},
            code="ks_checkpoint_mismatch",
        )
    if row.state != CheckpointState.PUBLISHED or row.published_at is None:
        raise NotRestorable(
            f"The checkpoint {row.id} is {row.state}, not valid. Nothing was started.",
            next_action=list_them,
            facts={"checkpoint_id": row.id, "checkpoint_state": row.state},
        )
    return SavedPoint(
        id=row.id,
        content_digest=row.content_digest,
        source_epoch=row.source_epoch,
        event_watermark=row.event_watermark,
        watermarks=row.watermarks,
        begun_at=row.created_at,
        published_at=row.published_at,
        reason=row.reason,
        logical_bytes=row.logical_bytes,
    )


def later(session: Session, point: SavedPoint) -> list[LaterWork]:
    """The session's checkpoints that were published after that one."""
    rows = Checkpoint.objects.filter(session=session, state__in=_PUBLISHED, published_at__gt=point.published_at)
    found = rows.order_by("published_at", "id").values_list("id", "reason", "source_epoch", "published_at")
    return [
        LaterWork("checkpoint", id_, {"reason": reason or None, "source_epoch": epoch, "published_at": at and at.isoformat()})
        for id_, reason, epoch, at in found
    ]
