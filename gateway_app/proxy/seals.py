"""The accounts' sealers, kept for a short while: on the data path nobody asks the database for a key at each call."""

import asyncio
import time

from sessions_app.services import steps
from sessions_app.services.steps import Sealer

#: A key that was destroyed seals and opens nothing after this.
KEPT_SECONDS = 30.0
INLINE_BYTES = 64 * 1024


class Seals:
    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, Sealer]] = {}

    async def of(self, account_id: str) -> Sealer:
        """Raises IntegrityFailed or a fault of the store, as the step does."""
        known = self._kept.get(account_id)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        sealer = await asyncio.to_thread(_ask, account_id)
        self._kept[account_id] = (time.monotonic() + KEPT_SECONDS, sealer)
        return sealer


def _ask(account_id: str) -> Sealer:
    from django.db import close_old_connections

    try:
        return steps.sealer.call(account_id)
    finally:
        close_old_connections()


async def in_pieces(sealer: Sealer, data: bytes, size: int) -> list[bytes]:
    """Much is sealed in a thread, so that others do not wait for it; for little a thread costs more than the sealing."""
    return _sealed(sealer, data, size) if len(data) <= INLINE_BYTES else await asyncio.to_thread(_sealed, sealer, data, size)


def _sealed(sealer: Sealer, data: bytes, size: int) -> list[bytes]:
    view = memoryview(data)
    return [sealer.seal(bytes(view[start : start + size])) for start in range(0, len(data), size)]
