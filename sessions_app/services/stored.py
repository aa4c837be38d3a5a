"""How many bytes an account has in the store: a figure that is kept, for nobody adds up its packs while a request waits.

Every publication adds to it; an erasure, and every publication too, asks for a new measurement, which the beat makes.
"""

from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from sessions_app.models import AccountUsage
from sessions_app.services import steps

#: An account is measured at most this often, and so many in one turn.
EVERY = timedelta(minutes=1)
BATCH = 20


def added(account_id: str, stored_bytes: int) -> None:
    """A publication has stored so much more. Prerequisite: inside its transaction.

    Locks are taken as in services/roll_up.py: the account's row here, then rows of single sessions.
    """
    AccountUsage.objects.bulk_create([AccountUsage(account_id=account_id, stored_bytes=0)], ignore_conflicts=True)
    AccountUsage.objects.filter(account_id=account_id).update(stored_bytes=F("stored_bytes") + stored_bytes, changed_at=Now())


def changed(account_id: str) -> None:
    """Something was erased: how much the account has is measured anew, and until then the figure is too high."""
    AccountUsage.objects.filter(account_id=account_id).update(changed_at=Now())


def measure_due() -> int:
    """Measure accounts in which something has changed, a few at a time. Returns how many."""
    due = AccountUsage.objects.filter(Q(measured_at__isnull=True) | Q(measured_at__lt=Now() - EVERY), changed_at__isnull=False)
    return sum(measure(account_id) is not None for account_id in due.order_by("changed_at").values_list("account_id", flat=True)[:BATCH])


@transaction.atomic
def measure(account_id: str) -> int | None:
    """The bytes as they are, written down; None for an account without a figure.

    The row is locked before the packs are read: a publication that commits later adds to what was measured, one
    that committed before is in it.
    """
    row = AccountUsage.objects.select_for_update(no_key=True).filter(account_id=account_id).first()
    if row is None:
        return None
    found = steps.account_stored_bytes.call(account_id)
    AccountUsage.objects.filter(account_id=account_id).update(stored_bytes=found, measured_at=Now(), changed_at=None)
    return found


def of_account(account_id: str) -> int | None:
    """The kept figure: 0 where nothing was ever stored, None where it was not measured yet."""
    row = AccountUsage.objects.filter(account_id=account_id).first()
    return row.stored_bytes if row else 0
