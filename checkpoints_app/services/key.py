"""Account keys: made at an account's first save, kept wrapped by the service's master key."""

from django.conf import settings

from checkpoints_app.models import AccountKey
from checkpoints_app.store import AccountKeys, SecretKey, derive_keys, unwrap_root_key, wrap_root_key
from sessions_app.errors import IntegrityFailed


def keys_to_save(account_id: str) -> AccountKeys:
    """The account's keys, drawn if it has none. Two first saves at once end with one key."""
    wrapped = wrap_root_key(_master(), account_id, SecretKey.random())
    row, _ = AccountKey.objects.get_or_create(account_id=account_id, defaults={"wrapped": wrapped})
    return derive_keys(unwrap_root_key(_master(), account_id, bytes(row.wrapped)))


def keys_to_read(account_id: str) -> AccountKeys:
    """The account's keys. Raises IntegrityFailed if they were destroyed: nothing of the account can be read then."""
    row = AccountKey.objects.filter(account_id=account_id).first()
    if row is None:
        raise IntegrityFailed(
            "The account has no content key: nothing of it can be read. Nothing was started.", next_action="Tell the operator."
        )
    return derive_keys(unwrap_root_key(_master(), account_id, bytes(row.wrapped)))


def _master() -> SecretKey:
    return SecretKey(settings.KEEPSTATE_MASTER_KEY)
