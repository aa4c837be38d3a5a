"""Small values that other tables keep, sealed under the account's own key (AES-256-GCM, a random nonce each, bound to the account)."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from checkpoints_app.services import key
from sessions_app.errors import IntegrityFailed

_NONCE_BYTES = 12


class AccountSealer:
    """Random nonces are safe for 2^32 values of one key."""

    def __init__(self, account_id: str, secret: bytes):
        self._bound, self._cipher = account_id.encode(), AESGCM(secret)

    def seal(self, plain: bytes) -> bytes:
        """Nonce and ciphertext."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, self._bound)

    def unseal(self, sealed: bytes) -> bytes:
        """Raises IntegrityFailed if it was changed, or is another account's."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._bound)
        except InvalidTag as error:
            raise IntegrityFailed("What was kept sealed for this account does not open: it was changed, or is another's.") from error


def sealer(account_id: str) -> AccountSealer:
    """Of an account that is to have something sealed: it gets its key if it has none yet. Raises as `key.rows_key_to_seal`."""
    return AccountSealer(account_id, key.rows_key_to_seal(account_id))


def seal(account_id: str, plain: bytes) -> bytes:
    """As `AccountSealer.seal`; the account gets its key if it has none yet."""
    return sealer(account_id).seal(plain)


def unseal(account_id: str, sealed: bytes) -> bytes:
    """Raises IntegrityFailed if it was changed, is another account's, or the account's key is gone."""
    return AccountSealer(account_id, key.rows_key(account_id)).unseal(sealed)
