"""Receipts of erasure: what was erased, signed with a key that is derived from the master key."""

import hmac
from typing import Any

from blake3 import blake3

from checkpoints_app.models import ErasureReceipt
from checkpoints_app.services import key
from checkpoints_app.store.ids import canonical_json


def body(receipt: ErasureReceipt) -> dict[str, Any]:
    """What the signature covers. Times are the database's, in UTC."""
    times = {name: getattr(receipt, name) for name in ("started_at", "key_destroyed_at", "finished_at")}
    return {
        "receipt": receipt.id,
        "what": "account",
        "account": receipt.account_id,
        "objects": receipt.object_count,
        "stored_bytes": receipt.stored_bytes,
        "checkpoints": receipt.checkpoint_count,
        **{name: moment.isoformat() if moment else None for name, moment in times.items()},
        **({"deletion": receipt.deletion_id, "erased": receipt.erased} if receipt.deletion_id else {}),
    }


def shown(receipt: ErasureReceipt) -> dict[str, Any]:
    """The body with its signature: what `is_genuine_text` takes again."""
    return {**body(receipt), "signature": receipt.signature}


def of_deletion(deletion_id: str) -> dict[str, Any] | None:
    """The signed receipt of an account's deletion, or None as long as there is none."""
    receipt = ErasureReceipt.objects.filter(deletion_id=deletion_id, finished_at__isnull=False).first()
    return shown(receipt) if receipt else None


def signature(receipt: ErasureReceipt, signing_key: bytes) -> str:
    return _signed(body(receipt), signing_key)


def _signed(content: dict[str, Any], signing_key: bytes) -> str:
    return blake3(canonical_json(content), key=signing_key).hexdigest()


def is_genuine(receipt: ErasureReceipt) -> bool:
    """Whether this service, under its master key or the one before it, wrote exactly this."""
    return any(hmac.compare_digest(receipt.signature, signature(receipt, signing_key)) for signing_key in key.receipt_keys())


def is_genuine_text(content: dict[str, Any]) -> bool:
    """As `is_genuine`, of a receipt that was handed out: the account, and its row here, may be long gone."""
    told = content.get("signature")
    rest = {name: value for name, value in content.items() if name != "signature"}
    return isinstance(told, str) and any(hmac.compare_digest(told.encode(), _signed(rest, one).encode()) for one in key.receipt_keys())


def sign_again() -> int:
    """After the master key was exchanged: sign what the previous key signed. What neither key signed is left as it is. Returns how many."""
    current, *previous = key.receipt_keys()
    signed = 0
    for receipt in ErasureReceipt.objects.exclude(signature="").iterator():
        if any(hmac.compare_digest(receipt.signature, signature(receipt, old)) for old in previous):
            ErasureReceipt.objects.filter(id=receipt.id).update(signature=signature(receipt, current))
            signed += 1
    return signed
