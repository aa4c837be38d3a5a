"""Object keys: accounts/<account id>/packs/<pack id> and accounts/<account id>/manifests/<manifest id>."""

import re

from .seal import Kind

_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_OBJECT = re.compile(r"[0-9a-f]{64}")


def account_prefix(account_id: str) -> str:
    """What every key of the account begins with. ValueError for an id that could leave its directory."""
    if not _ACCOUNT.fullmatch(account_id):
        raise ValueError("an account id has 1 to 64 letters, digits, '-' or '_', and begins with a letter or digit")
    return f"accounts/{account_id}/"


def object_key(account_id: str, kind: Kind, object_id: str) -> str:
    if not _OBJECT.fullmatch(object_id):
        raise ValueError("an object id has 64 hex digits")
    return f"{account_prefix(account_id)}{kind.word}s/{object_id}"
