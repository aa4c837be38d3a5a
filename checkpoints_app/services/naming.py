"""Names that owners give to checkpoints, and holds that operators put on them. Neither lets one expire; a deletion takes both away."""

from django.db import transaction
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint_list
from checkpoints_app.states import CheckpointState
from sessions_app.errors import Conflict
from sessions_app.models import Session
from sessions_app.services import bounds, event, operation, retention
from sessions_app.services.by_operator import write

_GONE = (CheckpointState.ERASING, CheckpointState.ERASED)


@transaction.atomic
def rename(session: Session, checkpoint_id: str, name: str) -> Checkpoint:
    """Give it the name, or with "" none; what is so already is not told again. Raises Invalid, NotFound; Conflict for an erased one."""
    bounds.require_checkpoint_name(name)
    row, session = _locked(session, checkpoint_id)
    if row.name != name:
        Checkpoint.objects.filter(id=row.id).update(name=name)
        event.append(session.id, "checkpoint.named", {"named": bool(name)}, source="api", subject=("checkpoint", row.id))
        retention.mark_due(session.id)
        row.refresh_from_db()
    return row


@transaction.atomic
def hold(checkpoint: Checkpoint, *, reason: str, by: str) -> Checkpoint:
    """No policy touches it until it is released. It blocks retention alone: its owner may delete it, or its session. `by`: the operator."""
    bounds.require_reason(reason)
    row, _ = _locked(checkpoint.session, checkpoint.id)
    if row.held_at is None or row.hold_reason != reason:
        Checkpoint.objects.filter(id=row.id).update(held_at=Now(), hold_reason=reason)
        write("hold", by, account_id=row.account_id, session_id=row.session_id, checkpoint_id=row.id)
    row.refresh_from_db()
    return row


@transaction.atomic
def release(checkpoint: Checkpoint, *, by: str) -> Checkpoint:
    row, session = _locked(checkpoint.session, checkpoint.id)
    if row.held_at is not None:
        Checkpoint.objects.filter(id=row.id).update(held_at=None, hold_reason="")
        write("release", by, account_id=row.account_id, session_id=row.session_id, checkpoint_id=row.id)
        retention.mark_due(session.id)
    row.refresh_from_db()
    return row


def _locked(session: Session, checkpoint_id: str) -> tuple[Checkpoint, Session]:
    """The checkpoint first, then its session, as everywhere."""
    row = checkpoint_list.find(session, checkpoint_id, Checkpoint.objects.select_for_update(no_key=True))
    if row.state in _GONE:
        raise Conflict(f"The checkpoint is {row.state}. Nothing was changed.", facts={"checkpoint_id": row.id})
    return row, operation.lock(session)
