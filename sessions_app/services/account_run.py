"""Carrying out an account's deletion when its time has come: in turns of the beat, each of which goes on where the last one was.

  tokens     revoked: nobody acts for the account any more
  sessions   deleted by operations like any other, a few at a time; the turns wait for them without standing still
  content    each app's eraser (steps.erase_account); the store's objects, then the account's key
  rows       every row that belongs to the account, batch by batch
  account    its own row
  receipt    signed, over the counts of all steps
Each step is safe to repeat, so a turn that died is simply done again. One turn at a time holds a deletion.
"""

import logging

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from sessions_app.errors import ServiceError
from sessions_app.models import Account, AccountDeletion, ApiToken
from sessions_app.services import account_rows, locks, record, session_deletion, steps
from sessions_app.services.locks import Busy
from sessions_app.services.steps import Step, no_step
from sessions_app.states import DeletionState, RecordKind

log = logging.getLogger(__name__)
_BATCH = 20


def run_due() -> int:
    """One turn at each deletion whose time has come; a fault of one never keeps the others. Returns how many ended."""
    due = Q(state=DeletionState.RUNNING) | Q(state=DeletionState.SCHEDULED, due_at__lte=Now())
    ended = 0
    for deletion_id in AccountDeletion.objects.filter(due).order_by("due_at").values_list("id", flat=True)[:_BATCH]:
        try:
            ended += advance(deletion_id)
        except Busy:
            log.info("an account's deletion goes on elsewhere", extra={"deletion_id": deletion_id})
        except Exception as error:
            log.exception("an account's deletion met a fault; it goes on in the next turn", extra={"deletion_id": deletion_id})
            trouble = error.word if isinstance(error, ServiceError) else type(error).__name__
            AccountDeletion.objects.filter(id=deletion_id).update(trouble=trouble)
    return ended


def advance(deletion_id: str, *, step: Step = no_step) -> bool:
    """As far as it goes now. True if it has ended. Raises Busy while another turn is at it, and what an eraser raises."""
    with locks.exclusive(f"account-deletion/{deletion_id}", 0):
        deletion = _begun(deletion_id)
        if deletion is None:
            return False
        step("begun")
        account = Account.objects.filter(id=deletion.account_id).first()
        if account is not None and not _erased(account, deletion, step):
            return False
        _close(deletion, step)
        return True


def _begun(deletion_id: str) -> AccountDeletion | None:
    """Running, from now on at the latest; None for one that was cancelled, has ended, or is not due."""
    rows = AccountDeletion.objects.filter(id=deletion_id)
    with transaction.atomic():
        due = rows.filter(state=DeletionState.SCHEDULED, due_at__lte=Now())
        if due.update(state=DeletionState.RUNNING, started_at=Now()):
            _tell(rows.get(), "account.deletion_begun")
    return rows.filter(state=DeletionState.RUNNING).first()


def _erased(account: Account, deletion: AccountDeletion, step: Step) -> bool:
    """False while sessions are still being deleted."""
    ApiToken.objects.filter(account=account, revoked_at=None).update(revoked_at=Now())
    step("tokens_revoked")
    if session_deletion.of_account(account):
        return False
    step("sessions_deleted")
    for erase in steps.erase_account:
        counts = erase(account)
        _note(deletion, counts)
        step("content_erased")
    account_rows.erase(account, told=lambda name, count: _add(deletion, name, count, step))
    step("rows_erased")
    with transaction.atomic():
        Account.objects.select_for_update().get(id=account.id)
        account_rows.erase(account, told=lambda name, count: _add(deletion, name, count, no_step))  # what came in between
        Account.objects.filter(id=account.id).delete()
    step("account_erased")
    return True


def _note(deletion: AccountDeletion, counts: dict[str, int | None]) -> None:
    """What an eraser has counted; one that is repeated, and finds less, takes nothing back."""
    with transaction.atomic():
        row = AccountDeletion.objects.select_for_update().get(id=deletion.id)
        known = {name: max(count or 0, row.journal.get(name, 0)) for name, count in counts.items()}
        AccountDeletion.objects.filter(id=row.id).update(journal={**row.journal, **known}, trouble="")


def _add(deletion: AccountDeletion, name: str, count: int, step: Step) -> None:
    """Prerequisite: inside the commit that erases them."""
    row = AccountDeletion.objects.select_for_update().get(id=deletion.id)
    row.journal[name] = row.journal.get(name, 0) + count
    AccountDeletion.objects.filter(id=row.id).update(journal=row.journal)
    step("row_batch")


def _close(deletion: AccountDeletion, step: Step) -> None:
    deletion.refresh_from_db()
    steps.sign_receipt.call(deletion.account_id, deletion.id, deletion.journal)
    step("signed")
    with transaction.atomic():
        running = AccountDeletion.objects.filter(id=deletion.id, state=DeletionState.RUNNING)
        if running.update(state=DeletionState.DONE, ended_at=Now(), trouble=""):
            _tell(deletion, "account.deleted")


def _tell(deletion: AccountDeletion, type_: str) -> None:
    facts = {"deletion_id": deletion.id, **deletion.journal}
    record.write(RecordKind.LIFECYCLE, type_, account_id=deletion.account_id, actor="beat", facts=facts)
