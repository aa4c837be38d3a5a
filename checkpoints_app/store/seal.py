"""Authenticated encryption of one object's parts (AES-256-GCM).

Every object has a random 32-byte id and its own key, derived from the account's seal key and that id. Inside an object each part
has a place (section, number), which is the nonce. A sealer draws its id itself and counts places itself, so a key and nonce never
meet twice: not after a retry, a crash or a fork of the process. Associated data binds kind, account, object id and place, so that
a part cannot be moved within an object, between objects or between accounts.
"""

import os
import struct
from dataclasses import dataclass
from enum import IntEnum

from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .errors import IntegrityError
from .keys import AccountKeys

OBJECT_ID_BYTES = 32
SALT_BYTES = 32
TAG_BYTES = 16
_SUBKEY_CONTEXT = "KeepState store v1: object key"
_REWRITTEN_CONTEXT = "KeepState store v1: rewritten object key"


class Kind(IntEnum):
    """Kinds of stored objects. The value is part of the associated data."""

    PACK = 1
    MANIFEST = 2

    @property
    def word(self) -> str:
        return self.name.lower()


class Section(IntEnum):
    """Parts of an object that are sealed apart: data frames, and the one table that describes them."""

    FRAME = 0
    TABLE = 1


@dataclass(frozen=True)
class Rewriting:
    """Which rewriting of an object its parts belong to: a generation from 1, and the salt that its header carries."""

    generation: int
    salt: bytes


def _cipher(keys: AccountKeys, kind: Kind, object_id: bytes, rewriting: Rewriting | None) -> AESGCM:
    seal_key = keys.pack_key if kind is Kind.PACK else keys.manifest_key
    if rewriting is None:
        return AESGCM(blake3(seal_key.reveal() + object_id, derive_key_context=_SUBKEY_CONTEXT).digest())
    material = seal_key.reveal() + object_id + struct.pack("<I", rewriting.generation) + rewriting.salt
    return AESGCM(blake3(material, derive_key_context=_REWRITTEN_CONTEXT).digest())


def _place(section: Section, number: int) -> bytes:
    return struct.pack(">IQ", section, number)


def _binding(kind: Kind, account_id: str, object_id: bytes, rewriting: Rewriting | None) -> bytes:
    account = account_id.encode("utf-8")
    generation = b"" if rewriting is None else struct.pack("<I", rewriting.generation)
    return struct.pack("<BH", kind, len(account)) + account + object_id + generation


class Sealer:
    """Seals the parts of one new object, whose id it draws. Not for two threads at once."""

    def __init__(self, keys: AccountKeys, kind: Kind, account_id: str):
        self._begin(keys, kind, account_id, os.urandom(OBJECT_ID_BYTES), None)

    @classmethod
    def of_generation(cls, keys: AccountKeys, account_id: str, pack_id: str, generation: int) -> "Sealer":
        """For the next form of a pack. It draws a salt, so no two sealers of a generation share a key."""
        if not 0 < generation < 1 << 32:
            raise ValueError("a rewritten pack has a generation from 1")
        sealer = cls.__new__(cls)
        sealer._begin(keys, Kind.PACK, account_id, bytes.fromhex(pack_id), Rewriting(generation, os.urandom(SALT_BYTES)))
        return sealer

    def _begin(self, keys: AccountKeys, kind: Kind, account_id: str, raw_id: bytes, rewriting: Rewriting | None) -> None:
        self.object_id = raw_id.hex()
        self.rewriting = rewriting
        self._cipher = _cipher(keys, kind, raw_id, rewriting)
        self._binding = _binding(kind, account_id, raw_id, rewriting)
        self._next = dict.fromkeys(Section, 0)

    def seal(self, section: Section, plain: bytes | memoryview) -> bytes:
        """The next part of that section: ciphertext and 16 bytes of tag."""
        place = _place(section, self._next[section])
        self._next[section] += 1
        return self._cipher.encrypt(place, plain, self._binding + place)


class Opener:
    """Opens the parts of one object. Holds no state that changes: any number of threads may use it."""

    def __init__(self, keys: AccountKeys, kind: Kind, account_id: str, object_id: str, rewriting: Rewriting | None = None):
        raw_id = bytes.fromhex(object_id)
        self.kind = kind
        self.object_id = object_id
        self.rewriting = rewriting
        self._cipher = _cipher(keys, kind, raw_id, rewriting)
        self._binding = _binding(kind, account_id, raw_id, rewriting)

    def open(self, section: Section, number: int, sealed: bytes | memoryview) -> bytes:
        """The plain part, or IntegrityError if a bit, the key, the place, the object or the account is another."""
        place = _place(section, number)
        try:
            return self._cipher.decrypt(place, sealed, self._binding + place)
        except InvalidTag:
            raise self.refusal(f"{section.name.lower()} {number} is not authentic") from None

    def refusal(self, reason: str) -> IntegrityError:
        return IntegrityError(self.kind.word, self.object_id, reason)
