"""Accounts: who owns what."""

from sessions_app.models import Account


def ensure_account(name: str) -> Account:
    """The account of that name, made if it is not there."""
    account, _ = Account.objects.get_or_create(name=name)
    return account
