"""Accounts: who owns what, and which of them take changes."""

from django.db import connection

from sessions_app.errors import AccountClosing
from sessions_app.models import Account
from sessions_app.states import OperationKind

#: What goes on in an account that is closing: its deletion, and saves, which policies ask for and which lose nobody anything.
WHILE_CLOSING = frozenset({OperationKind.DELETE, OperationKind.CHECKPOINT})


def ensure_account(name: str) -> Account:
    """The account of that name, made if it is not there."""
    account, _ = Account.objects.get_or_create(name=name)
    return account


def require_open(account_id: str) -> None:
    """Prerequisite: inside the transaction of the change: a deletion that is being scheduled waits for it. Raises AccountClosing."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT closing_at IS NULL FROM sessions_app_account WHERE id = %s FOR SHARE", [account_id])
        row = cursor.fetchone()
    if row is None or not row[0]:
        raise closing()


def closing() -> AccountClosing:
    return AccountClosing(
        "The account is being deleted. Nothing was done.",
        next_action="To keep it, cancel the deletion while it is scheduled: DELETE /api/v2/account/deletion.",
    )
