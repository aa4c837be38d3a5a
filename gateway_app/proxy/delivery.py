"""Who has had an answer whole, and who has not: what was paid for and not had is given to the retry, whatever died in between.

A process tells of whole deliveries in batches, a moment later, so that no caller waits for it. If it is killed within that moment, the next
equal request of the machine may get an answer that its program had already. The other way round it would be paid for twice.
"""

import asyncio
import logging
import time
from collections import deque

from psycopg import OperationalError
from psycopg_pool import PoolTimeout

from gateway_app.proxy import delivery_rows
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.pool import WAIT_SECONDS, Pool
from gateway_app.proxy.request import Delivery

log = logging.getLogger(__name__)

TOLD_EVERY_SECONDS = 0.25
#: So many wait at most while the database does not answer; the oldest go, and are as those of a process that was killed.
MOST_WAITING = 10_000
#: That a caller left is tried to be written for so long.
WRITE_SECONDS = 30.0
#: Channels that were taken up; to take one up again does nothing more than cost a moment.
MOST_REMEMBERED = 10_000
_BATCH = 500


class Deliveries:
    """Of one process; `pump` is its name."""

    def __init__(self, database: Pool, pump: str) -> None:
        self._database, self._pump = database, pump
        self._had: deque[tuple[str, int, str]] = deque(maxlen=MOST_WAITING)
        self._leaving: dict[str, set[asyncio.Task[None]]] = {}
        self._taken_up: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._began = time.monotonic()

    def over(self, who: Channel, delivery: Delivery, *, whole: bool) -> None:
        """`whole`: the caller's connection took all of it; else the caller is gone, or was broken off, before it had all of it."""
        if whole:
            self._had.append((who.session_id, who.epoch, delivery.call_id))
            return
        task = asyncio.create_task(self._write_left(who, delivery), name="left")
        waiting = self._leaving.setdefault(who.session_id, set())
        waiting.add(task)
        task.add_done_callback(lambda _: self._has_left(who.session_id, task))

    def _has_left(self, session_id: str, task: "asyncio.Task[None]") -> None:
        waiting = self._leaving.get(session_id, set())
        waiting.discard(task)
        if not waiting:
            self._leaving.pop(session_id, None)

    async def ready(self, who: Channel) -> None:
        """Returns when a request on the channel finds all that it may be given, of an earlier process and of this one's callers that left.

        Raises OperationalError or PoolTimeout; the next request tries again.
        """
        task = self._taken_up.get((who.session_id, who.epoch))
        if task is None or (task.done() and task.exception() is not None):
            if len(self._taken_up) >= MOST_REMEMBERED:
                self._taken_up.clear()
            task = self._taken_up[who.session_id, who.epoch] = asyncio.create_task(self._take_up(who))
        await asyncio.shield(task)
        if waiting := self._leaving.get(who.session_id):
            _, unwritten = await asyncio.wait(set(waiting), timeout=WAIT_SECONDS)
            if unwritten:
                raise PoolTimeout

    async def run(self) -> None:
        """For as long as the process lives."""
        while True:
            await asyncio.sleep(TOLD_EVERY_SECONDS)
            await self.tell()

    async def end(self, seconds: float) -> None:
        """Write what there is to write, so long at most."""
        if waiting := set().union(*self._leaving.values()):
            await asyncio.wait(waiting, timeout=seconds)
        await self.tell()

    async def tell(self) -> None:
        """What was had since the last time. What cannot be written waits for the next."""
        while self._had:
            batch = [self._had.popleft() for _ in range(min(_BATCH, len(self._had)))]
            try:
                async with self._database.connection() as connection:
                    await delivery_rows.had(connection, batch)
            except (OperationalError, PoolTimeout) as error:
                log.warning("deliveries could not be written", extra={"count": len(batch), "reason": type(error).__name__})
                self._had.extendleft(reversed(batch))
                return

    async def _take_up(self, who: Channel) -> None:
        async with self._database.connection() as connection:
            await delivery_rows.take_up(connection, who, self._pump, time.monotonic() - self._began)

    async def _write_left(self, who: Channel, delivery: Delivery) -> None:
        if delivery.opening is not None:
            await asyncio.wait({delivery.opening})
            delivery.opening.exception()  # it was told to whoever waited; who left may not have
        call_id = delivery.call_id
        if not call_id:
            return
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                while not await self._written_left(who, call_id):  # noqa: ASYNC110  what is waited for is a database
                    await asyncio.sleep(TOLD_EVERY_SECONDS)
        except TimeoutError:
            log.error(
                "a call's caller left, and that could not be written: its retry will be a call of its own", extra={"call_id": call_id}
            )

    async def _written_left(self, who: Channel, call_id: str) -> bool:
        try:
            async with self._database.connection() as connection:
                await delivery_rows.undelivered(connection, who, call_id)
        except (OperationalError, PoolTimeout):
            return False
        return True
