"""Object keys of an account, below accounts/<account id>/.

packs/<pack id>                     a pack as a save wrote it (generation 0)
packs/<pack id>-<generation>        the same pack rewritten
manifests/<manifest id>             a manifest
erased/<manifest id>                a mark: that manifest's checkpoint was erased, and only its descendants still need it
key, key-<generation>               the account's wrapped root key; a later generation is another wrapping of the same key
"""

import re
from dataclasses import dataclass
from typing import Literal

from .seal import Kind

_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_OBJECT = re.compile(r"[0-9a-f]{64}")
_OWNED = re.compile(
    r"accounts/(?P<account>[A-Za-z0-9][A-Za-z0-9_-]{0,63})/"
    r"(?:(?P<kind>pack|manifest|erased)s?/(?P<id>[0-9a-f]{64})|(?P<key>key))(?:-(?P<generation>[1-9][0-9]{0,8}))?"
)

#: Objects that no row named for a while are moved to this prefix, under their whole key.
QUARANTINE = "quarantine/"

Word = Literal["pack", "manifest", "erased", "key"]


@dataclass(frozen=True)
class ObjectName:
    """What a key says. `object_id` is empty for an account key; `generation` counts for packs and account keys."""

    account_id: str
    word: Word
    object_id: str
    generation: int


def account_prefix(account_id: str) -> str:
    """What every key of the account begins with. ValueError for an id that could leave its directory."""
    if not _ACCOUNT.fullmatch(account_id):
        raise ValueError("an account id has 1 to 64 letters, digits, '-' or '_', and begins with a letter or digit")
    return f"accounts/{account_id}/"


def object_key(account_id: str, kind: Kind, object_id: str, generation: int = 0) -> str:
    if not _OBJECT.fullmatch(object_id):
        raise ValueError("an object id has 64 hex digits")
    return f"{account_prefix(account_id)}{kind.word}s/{object_id}{_suffix(generation)}"


def erased_mark_key(account_id: str, manifest_id: str) -> str:
    if not _OBJECT.fullmatch(manifest_id):
        raise ValueError("an object id has 64 hex digits")
    return f"{account_prefix(account_id)}erased/{manifest_id}"


def account_key_key(account_id: str, generation: int) -> str:
    return f"{account_prefix(account_id)}key{_suffix(generation)}"


def parse_key(key: str) -> ObjectName | None:
    """None for a key that is none of ours: nothing is known of such an object."""
    found = _OWNED.fullmatch(key)
    if found is None or not _spelled(key, found):
        return None
    word: Word = "key" if found["key"] else found["kind"]  # type: ignore[assignment]
    return ObjectName(found["account"], word, found["id"] or "", int(found["generation"] or 0))


def _spelled(key: str, found: re.Match[str]) -> bool:
    """Whether the key is exactly the one that the functions above make of these parts."""
    generation = int(found["generation"] or 0)
    if found["key"]:
        return True
    if found["kind"] == "erased":
        return generation == 0 and key == erased_mark_key(found["account"], found["id"])
    kind = Kind.PACK if found["kind"] == "pack" else Kind.MANIFEST
    return (kind is Kind.PACK or generation == 0) and key == object_key(found["account"], kind, found["id"], generation)


def _suffix(generation: int) -> str:
    if generation < 0:
        raise ValueError("a generation is a whole number from 0")
    return f"-{generation}" if generation else ""
