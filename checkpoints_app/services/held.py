"""How many bytes of the store are a session's or an account's."""

from django.db.models import Count, Q, Sum

from checkpoints_app.models import Checkpoint, Manifest, Pack
from checkpoints_app.states import CheckpointState
from sessions_app.models import Session
from sessions_app.services.steps import Held

_HOLDS = (CheckpointState.PUBLISHED, CheckpointState.CORRUPT)
_GONE = (CheckpointState.ERASING, CheckpointState.ERASED)


def of_session(session: Session) -> Held:
    """What its saves have stored. Exact where no checkpoint of it is erased, and it began by itself."""
    sums = Checkpoint.objects.filter(session=session).aggregate(
        stored=Sum("stored_bytes", filter=Q(state__in=_HOLDS)), gone=Count("id", filter=Q(state__in=_GONE))
    )
    return Held(sums["stored"] or 0, exact=not sums["gone"] and not session.parent_id)


def of_account(account_id: str) -> int:
    """Every pack and manifest of the account as its object lies in the store. Reads a row of each."""
    total: int = 0
    for model in (Pack, Manifest):
        total += model._default_manager.filter(account_id=account_id).aggregate(stored=Sum("stored_bytes"))["stored"] or 0
    return total
