"""The process's ear at the database: one connection that hears of every appended event, while anybody follows."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import psycopg
from django.db import connection

from sessions_app.services.following import CHANNEL

log = logging.getLogger(__name__)
AGAIN_SECONDS = (1, 2, 5, 10)


async def listen(began: Callable[[], None], heard: Callable[[str], None]) -> None:
    """Until cancelled. `began` is called whenever hearing begins: what was told before it was not heard. `heard` gets a session's id.

    A database that does not answer, or a proxy that passes no notifications on, is made up for by the hub's own looks.
    """
    attempt = 0
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(**_parameters(), autocommit=True) as ear:
                await ear.execute(f"LISTEN {CHANNEL}")
                attempt = 0
                began()
                async for told in ear.notifies():
                    heard(told.payload)
        except Exception as error:  # whatever it is, the looks go on, and so does the trying
            log.warning("events are not heard for now, only looked for", extra={"reason": str(error)[:200]})
        await asyncio.sleep(AGAIN_SECONDS[min(attempt, len(AGAIN_SECONDS) - 1)])
        attempt += 1


def _parameters() -> dict[str, Any]:
    """As Django connects, but for what belongs to its own cursors."""
    parameters: dict[str, Any] = connection.get_connection_params()
    return {name: value for name, value in parameters.items() if name not in ("cursor_factory", "context", "prepare_threshold")}
