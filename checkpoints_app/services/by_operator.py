"""What an operator asks of the store, each with its line in the service record in one transaction. `by` is the operator's user name."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Least, Now

from checkpoints_app.models import Checkpoint, Manifest, Pack
from sessions_app.services import dispatch
from sessions_app.services.by_operator import write

REASON = "held by an operator"
#: What an operator wants read comes before nearly all that is due, and is not told as overdue for it.
_NEARLY_LATE = timedelta(hours=1)


@transaction.atomic
def scrub(checkpoint: Checkpoint, by: str) -> int:
    """Everything that the checkpoint needs is due to be read again, and the store's upkeep is rung. Returns how many objects that are."""
    asked = Now() - timedelta(days=settings.KEEPSTATE_SCRUB_DAYS) + _NEARLY_LATE
    made_due = 0
    for model in (Pack, Manifest):
        needed = model.objects.filter(edges__checkpoint=checkpoint).values("id")
        made_due += model.objects.filter(id__in=needed).update(verified_at=Least("verified_at", asked))
    write(
        "scrub", by, account_id=checkpoint.account_id, session_id=checkpoint.session_id, checkpoint_id=checkpoint.id, object_count=made_due
    )
    dispatch.ring_control_once_committed(dispatch.STORE_UPKEEP)
    return made_due


@transaction.atomic
def upkeep(by: str) -> None:
    """The store's upkeep is rung: it reads what is due, within its budget, and goes on with erasures."""
    write("store_upkeep", by, account_id="")
    dispatch.ring_control_once_committed(dispatch.STORE_UPKEEP)


@transaction.atomic
def look_for_orphans(by: str) -> None:
    write("store_orphans", by, account_id="")
    dispatch.ring_control_once_committed(dispatch.STORE_ORPHANS)
