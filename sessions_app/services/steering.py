"""Texts that steer a session's next model call: sealed as they come in, so that no request, operation or log keeps them open."""

import base64
import hashlib
from typing import Any

from sessions_app.errors import Invalid
from sessions_app.services import bounds, steps
from sessions_app.services.steps import Steer


def seal(account_id: str, text: str) -> Steer:
    """Raises Invalid; nothing is written."""
    plain = text.encode()
    if not text.strip() or len(plain) > bounds.STEER_BYTES:
        raise Invalid(f"A steer is a text of 1 to {bounds.STEER_BYTES} bytes. Nothing was done.")
    return Steer(steps.seal.call(account_id, plain), hashlib.sha256(plain).hexdigest())


def packed(steer: Steer) -> dict[str, str]:
    """As an operation's parameters hold it."""
    return {"sealed": base64.b64encode(steer.sealed).decode(), "sha256": steer.sha256}


def unpacked(parameters: dict[str, Any], number: int) -> Steer | None:
    """The steer of a fork's child, by the child's number."""
    steers = parameters.get("steers") or []
    if not steers:
        return None
    found = steers[number % len(steers)]
    return Steer(base64.b64decode(found["sealed"]), found["sha256"])
