"""Signatures as the Standard Webhooks specification has them (symmetric, version v1): HMAC-SHA256 over id, time and body."""

import base64
import hashlib
import hmac
import secrets

PREFIX = "whsec_"
_SECRET_BYTES = 32


def new_secret() -> bytes:
    return secrets.token_bytes(_SECRET_BYTES)


def shown(secret: bytes) -> str:
    """The secret as its owner writes it into a verifier's settings."""
    return PREFIX + base64.b64encode(secret).decode()


def headers(message_id: str, timestamp: int, body: bytes, signing: list[bytes]) -> dict[str, str]:
    """One signature for each secret that is good now; a receiver takes the message if one of them is right. `timestamp` in Unix seconds."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    codes = [base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode() for secret in signing]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{code}" for code in codes),
    }
