"""Small values that other tables keep, sealed under the account's own key (AES-256-GCM, a random nonce each, bound to the account)."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from checkpoints_app.services import key
from sessions_app.errors import IntegrityFailed

_NONCE_BYTES = 12


def seal(account_id: str, plain: bytes) -> bytes:
    """Nonce and ciphertext; the account gets its key if it has none yet. Random nonces are safe for 2^32 values of one key."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key.rows_key_to_seal(account_id)).encrypt(nonce, plain, account_id.encode())


def unseal(account_id: str, sealed: bytes) -> bytes:
    """Raises IntegrityFailed if it was changed, is another account's, or the account's key is gone."""
    try:
        return AESGCM(key.rows_key(account_id)).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], account_id.encode())
    except InvalidTag as error:
        raise IntegrityFailed("What was kept sealed for this account does not open: it was changed, or is another's.") from error
