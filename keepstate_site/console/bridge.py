"""Between a visitor's connection and the machine's terminal, whatever the connection is."""

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass
from typing import Any, Protocol

from django.conf import settings

from keepstate_site.console import record
from keepstate_site.console.admission import Visit
from keepstate_site.console.link import Link, as_object
from keepstate_site.console.threads import in_thread
from sessions_app.services.activity import TELL_EVERY_SECONDS
from workers.wire import frames

log = logging.getLogger(__name__)

#: How long a visitor may take for what it is sent; then it is sent away, and the machine has not waited for it.
SEND_SECONDS = 30.0
CONSOLES = 64
CLIENT_LEFT, IDLE, TOKEN, GONE, SLOW = "client_left", "idle", "token_revoked", "relay_closed", "too_slow"
MALFORMED, FAILED = "malformed", "failed"


class Screen(Protocol):
    """A visitor's connection."""

    async def show(self, output: bytes) -> None: ...

    async def tell(self, notice: dict[str, Any]) -> None: ...

    async def receive(self) -> bytes | tuple[int, int] | None:
        """Input, a size as (columns, rows), or None when the visitor has left. Raises ValueError for what is neither."""


@dataclass
class Traffic:
    typed: int = 0
    printed: int = 0
    last: float = 0.0  # monotonic time of the last byte in either direction


async def bridge(visit: Visit, link: Link, screen: Screen, way: str) -> str:
    """Pass bytes until something ends it, and return what: a reason of the relay, or one of those above. The link is closed."""
    console_id, traffic, began = secrets.token_hex(8), Traffic(last=time.monotonic()), time.monotonic()
    tasks: list[asyncio.Task[str]] = []
    why = FAILED
    try:
        await in_thread(record.opened, visit, console_id, way)
        tasks = [asyncio.create_task(work) for work in (_out(link, screen, traffic), _in(link, screen, traffic), _watch(visit, traffic))]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        why = next(iter(done)).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        link.close()
        facts = {"why": why, "seconds": round(time.monotonic() - began), "bytes_typed": traffic.typed, "bytes_printed": traffic.printed}
        await asyncio.shield(in_thread(record.closed, visit, console_id, facts))
    return why


async def _out(link: Link, screen: Screen, traffic: Traffic) -> str:
    try:
        while (frame := await link.receive()) is not None:
            kind, data = frame
            if kind == frames.OUTPUT:
                traffic.printed += len(data)
                traffic.last = time.monotonic()
                async with asyncio.timeout(SEND_SECONDS):  # `wait_for` of Python 3.11 can swallow that this task is cancelled
                    await screen.show(data)
            elif kind == frames.NOTICE:
                async with asyncio.timeout(SEND_SECONDS):
                    await screen.tell(as_object(data))
            elif kind == frames.END:
                return str(as_object(data).get("why", GONE))
    except TimeoutError:
        return SLOW
    except OSError:
        return CLIENT_LEFT
    return GONE


async def _in(link: Link, screen: Screen, traffic: Traffic) -> str:
    try:
        while (said := await screen.receive()) is not None:
            if isinstance(said, bytes):
                traffic.typed += len(said)
                traffic.last = time.monotonic()
                await link.type(said)
            else:
                await link.resize(*said)
    except OSError:
        await asyncio.sleep(SEND_SECONDS)  # the link has ended: what it still has to say is read by the other direction
        return GONE
    except ValueError:
        return MALFORMED
    return CLIENT_LEFT


async def _watch(visit: Visit, traffic: Traffic) -> str:
    """An open terminal is use of its session; so one at which nothing happens for long must not stay open."""
    while True:
        await asyncio.sleep(TELL_EVERY_SECONDS)
        if time.monotonic() - traffic.last > 60 * settings.KEEPSTATE_CONSOLE_IDLE_MINUTES:
            return IDLE
        try:
            if not await in_thread(record.still_valid, visit):
                return TOKEN
        except Exception:
            log.exception("a console could not be told of as use")  # the database may be back in a moment
