"""Keys of an account: one random root key, stored only wrapped, from which every other key is derived.

master key --AES-256-GCM, bound to the account id--> wrapped root key --BLAKE3 derive_key--> id key, pack key, manifest key.
Destroying the wrapped root key makes everything the account stored unreadable.
"""

import os
import struct
from dataclasses import dataclass
from typing import NoReturn

from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .errors import IntegrityError

KEY_BYTES = 32
_NONCE_BYTES = 12
_WRAP_VERSION = b"\x01"
_WRAPPED_BYTES = len(_WRAP_VERSION) + _NONCE_BYTES + KEY_BYTES + 16
_WRAP_CONTEXT = b"KeepState account root key v1\0"
_ID_CONTEXT = "KeepState store v1: unit id key"
_PACK_CONTEXT = "KeepState store v1: pack seal key"
_MANIFEST_CONTEXT = "KeepState store v1: manifest seal key"


class SecretKey:
    """32 bytes that no repr, log, pickle or error page shows. `reveal` is for the call that uses them."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes):
        if len(value) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._value = bytes(value)

    def reveal(self) -> bytes:
        return self._value

    def __repr__(self) -> str:
        return "SecretKey(hidden)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled")

    @classmethod
    def random(cls) -> "SecretKey":
        return cls(os.urandom(KEY_BYTES))


@dataclass(frozen=True, eq=False)
class AccountKeys:
    """The derived keys of one account; its repr shows no key."""

    id_key: SecretKey
    pack_key: SecretKey
    manifest_key: SecretKey


def derive_keys(root: SecretKey) -> AccountKeys:
    def derived(context: str) -> SecretKey:
        return SecretKey(blake3(root.reveal(), derive_key_context=context).digest())

    return AccountKeys(derived(_ID_CONTEXT), derived(_PACK_CONTEXT), derived(_MANIFEST_CONTEXT))


def wrap_root_key(master: SecretKey, account_id: str, root: SecretKey) -> bytes:
    """The root key sealed for the database: version, random nonce, ciphertext and tag; 61 bytes.

    The nonce is random, so one master key wraps fewer than 2^32 times; each account is wrapped once per rotation.
    """
    nonce = os.urandom(_NONCE_BYTES)
    return _WRAP_VERSION + nonce + AESGCM(master.reveal()).encrypt(nonce, root.reveal(), _wrap_aad(account_id))


def unwrap_root_key(master: SecretKey, account_id: str, wrapped: bytes) -> SecretKey:
    """Raises IntegrityError for a wrong master key, another account's wrapping or any changed bit."""
    nonce = wrapped[1 : 1 + _NONCE_BYTES]
    if len(wrapped) != _WRAPPED_BYTES or wrapped[:1] != _WRAP_VERSION:
        raise IntegrityError("account key", account_id, "its wrapping has an unknown form")
    try:
        return SecretKey(AESGCM(master.reveal()).decrypt(nonce, wrapped[1 + _NONCE_BYTES :], _wrap_aad(account_id)))
    except InvalidTag:
        raise IntegrityError("account key", account_id, "the master key does not open it") from None


def _wrap_aad(account_id: str) -> bytes:
    name = account_id.encode("utf-8")
    return _WRAP_CONTEXT + struct.pack("<H", len(name)) + name
