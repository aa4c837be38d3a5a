"""Account keys: made at an account's first save, kept wrapped by the service's master key."""

from django.conf import settings

from checkpoints_app.models import AccountKey
from checkpoints_app.store import AccountKeys, IntegrityError, SecretKey, derive_keys, unwrap_root_key, wrap_root_key
from sessions_app.errors import IntegrityFailed


def keys_to_save(account_id: str) -> AccountKeys:
    """The account's keys, drawn if it has none. Two first saves at once end with one key. Raises IntegrityFailed."""
    wrapped = wrap_root_key(_master(), account_id, SecretKey.random())
    row, _ = AccountKey.objects.get_or_create(account_id=account_id, defaults={"wrapped": wrapped})
    return _keys(row)


def keys_to_read(account_id: str) -> AccountKeys:
    """The account's keys. Raises IntegrityFailed if they were destroyed or cannot be opened: nothing of the account can be read then."""
    row = AccountKey.objects.filter(account_id=account_id).first()
    if row is None:
        raise IntegrityFailed(
            "The account has no content key: nothing of it can be read. Nothing was started.", next_action="Tell the operator."
        )
    return _keys(row)


def _keys(row: AccountKey) -> AccountKeys:
    """A master key that does not fit says nothing about what is stored: it is the installation that is wrong."""
    try:
        return derive_keys(unwrap_root_key(_master(), row.account_id, bytes(row.wrapped)))
    except IntegrityError as error:
        raise IntegrityFailed(
            "The account's content key does not open with this service's master key: nothing of it can be read or saved. "
            "No stored content was judged or changed.",
            next_action="Tell the operator: KEEPSTATE_MASTER_KEY is not the one under which the account's key was wrapped.",
        ) from error


def _master() -> SecretKey:
    return SecretKey(settings.KEEPSTATE_MASTER_KEY)
