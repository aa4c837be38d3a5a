"""An account's deletion: planned, scheduled with a typed confirmation, cancelled while it waits. What follows is services/account_run.py.

From the moment that it is scheduled the account takes no other change: whoever makes one holds the account's row shared until the change is
committed, and the scheduling waits for that (services/account.py).
"""

import hashlib
import hmac
import secrets
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from sessions_app.errors import Conflict, Invalid, NotFound
from sessions_app.models import Account, AccountDeletion, Membership, Plan, Session
from sessions_app.services import account as accounts
from sessions_app.services import plan, record, usage
from sessions_app.states import DELETION_ACTIVE, SESSION_LIVE, DeletionState, PlanKind, RecordKind, SessionState

#: What is kept of an account, and what not.
RETENTION = {
    "sessions": "deleted, with their content, history, commands and outputs",
    "tokens_members_and_keys": "revoked, then erased",
    "stored_content": "erased, and the account's content key destroyed",
    "service_record": "kept under its own retention, without content",
    "receipt": "kept: what was erased, signed; read it with the secret that is told once when the deletion is scheduled",
}


def make_plan(account: Account) -> Plan:
    """What there is of the account, and when a deletion that is scheduled now would begin. Changes nothing."""
    sessions = Session.objects.filter(account=account).exclude(runtime_state=SessionState.DELETED)
    content = {
        "account_id": account.id,
        "sessions": sessions.count(),
        "running_machines": sessions.filter(runtime_state__in=SESSION_LIVE).count(),
        "stored_bytes": usage.of_account(account).storage.value,
        "tokens": account.tokens.filter(revoked_at=None).count(),
        "members": Membership.objects.filter(account=account).count(),
        "grace_hours": settings.KEEPSTATE_ACCOUNT_GRACE_HOURS,
        "retention": RETENTION,
    }
    return plan.make(account, PlanKind.ACCOUNT_DELETION, session=None, content=content, basis=_basis(account))


def schedule(account: Account, *, plan_id: str, confirm: str, actor: str) -> tuple[AccountDeletion, str]:
    """Begin the time of grace, and return the deletion with the secret that reads its receipt. `confirm`: the account's name.

    Raises Invalid, AccountClosing, or as `plan.take`; then nothing was done.
    """
    if not hmac.compare_digest(confirm.encode(), account.name.encode()):
        raise Invalid("What was typed is not the account's name. Nothing was scheduled.", code="ks_confirmation_mismatch")
    secret = secrets.token_urlsafe(32)
    with transaction.atomic():
        row = Account.objects.select_for_update().get(id=account.id)
        if row.closing_at is not None:
            raise accounts.closing()
        plan.take(row, PlanKind.ACCOUNT_DELETION, plan_id, session=None, basis=_basis(row))
        deletion = AccountDeletion.objects.create(
            account_id=row.id,
            secret_digest=digest(secret),
            actor=actor,
            due_at=Now() + timedelta(hours=settings.KEEPSTATE_ACCOUNT_GRACE_HOURS),
        )
        Account.objects.filter(id=row.id).update(closing_at=Now())
        _tell(deletion, "account.deletion_scheduled", actor)
    deletion.refresh_from_db()
    return deletion, secret


def cancel(account: Account, *, actor: str) -> AccountDeletion:
    """The account stays. Raises NotFound if no deletion is scheduled, or Conflict if it has begun; then nothing was done."""
    with transaction.atomic():
        Account.objects.select_for_update().get(id=account.id)
        deletion = current(account)
        cancelled = AccountDeletion.objects.filter(id=deletion.id, state=DeletionState.SCHEDULED)
        if not cancelled.update(state=DeletionState.CANCELLED, ended_at=Now()):
            raise Conflict(
                "The deletion has begun and cannot be cancelled any more. Nothing was changed.",
                next_action="What was erased by now is gone. Read how it stands with the receipt's secret.",
                code="ks_account_deletion_begun",
            )
        Account.objects.filter(id=account.id).update(closing_at=None)
        _tell(deletion, "account.deletion_cancelled", actor)
    deletion.refresh_from_db()
    return deletion


def current(account: Account) -> AccountDeletion:
    """The deletion that is scheduled or runs. Raises NotFound."""
    found = AccountDeletion.objects.filter(account_id=account.id, state__in=DELETION_ACTIVE).first()
    if found is None:
        raise NotFound("No deletion of this account is scheduled.", next_action="Plan one: POST /api/v2/account/deletion-plan.")
    return found


def by_secret(deletion_id: str, secret: str) -> AccountDeletion:
    """Raises NotFound, which does not tell a wrong secret from an unknown id."""
    found = AccountDeletion.objects.filter(id=deletion_id[:40]).first()
    if found is None or not hmac.compare_digest(found.secret_digest, digest(secret)):
        raise NotFound("There is no such receipt, or the secret is not its own.")
    return found


def digest(secret: str) -> str:
    """256 random bits, so a plain SHA-256 keeps them safe at rest."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _basis(account: Account) -> dict[str, Any]:
    """All of the account goes, whatever is made or deleted in it meanwhile: only its identity must be what was shown."""
    return {"account_id": account.id}


def _tell(deletion: AccountDeletion, type_: str, actor: str) -> None:
    record.write(RecordKind.LIFECYCLE, type_, account_id=deletion.account_id, actor=actor, facts={"deletion_id": deletion.id})
