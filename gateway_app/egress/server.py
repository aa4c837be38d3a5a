"""The egress proxy as a server: a door for each machine, all of one process, each with the channel that it stands for."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gateway_app.egress import dial as dials
from gateway_app.egress import lookup, refusals, watch
from gateway_app.egress.dial import Dial
from gateway_app.egress.head import HEAD_BYTES
from gateway_app.egress.lookup import Resolve
from gateway_app.egress.proxy import Egress, refuse
from gateway_app.proxy.answer import abort
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.pool import Pool
from gateway_app.proxy.server import Who

#: Of one machine at a time. New ones are let in at that rate, after so many at once; the others wait their turn.
MOST_OPEN = 64
PER_SECOND = 100
AT_ONCE = 200
#: While its process drains a connection that carries nothing for so long is ended: kept open for later, it would be kept for ever.
DRAIN_SECONDS = 5.0


@asynccontextmanager
async def egress(database: Pool, *, resolve: Resolve = lookup.by_system, dial: Dial = dials.by_number) -> AsyncIterator[Egress]:
    """An egress proxy over an open pool, with its watch. At the end what was counted is written down."""
    one = Egress(database, resolve=resolve, dial=dial)
    tasks = [
        asyncio.create_task(watch.watch(one), name="egress watch"),
        asyncio.create_task(watch.keep_writing(one), name="egress counts"),
    ]
    try:
        yield one
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await watch.write(one)
        one.lookups.close()


def most_connections() -> int:
    """Of all machines of the process: each takes two files, and model calls need theirs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else min(4096, soft // 4)


@dataclass
class Door:
    """One machine's."""

    egress: Egress
    who: Channel | Who
    most: int = field(default_factory=most_connections)
    server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _next_at: float = 0.0

    async def shut(self) -> None:
        """No connection is taken any more; those that there are stay."""
        if self.server is not None:
            self.server.close()

    async def drain(self) -> None:
        """Returns when they have ended; one that carries nothing for a while is ended."""
        while self._tasks:
            self.egress.cut_idle(DRAIN_SECONDS, self._tasks)
            await asyncio.wait(set(self._tasks), timeout=DRAIN_SECONDS / 10)

    async def close(self) -> None:
        """Its connections are reset. Returns when they are gone."""
        await self.shut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= 2 * MOST_OPEN:  # those that are told so wait a while to be heard
            abort(writer.transport)
            return
        self._tasks.add(task)
        self.egress.connections += 1
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # cut: both ends were reset
        finally:
            self.egress.connections -= 1
            self._tasks.discard(task)
            abort(writer.transport)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        most = MOST_OPEN if len(self._tasks) > MOST_OPEN else self.most if self.egress.connections > self.most else None
        if most is not None:
            await refuse((reader, writer), refusals.too_many(most))
            return
        await asyncio.sleep(self._turn())
        who = self.who if isinstance(self.who, Channel) else await self.who()
        if who is None:
            await refuse((reader, writer), refusals.unknown())
            return
        await self.egress.handle(who, (reader, writer))

    def _turn(self) -> float:
        """Seconds until the next connection may be looked at."""
        now = asyncio.get_running_loop().time()
        self._next_at = max(self._next_at, now - AT_ONCE / PER_SECOND) + 1 / PER_SECOND
        return max(0.0, self._next_at - now)


async def listen(one: Egress, who: Channel | Who, listening: socket.socket) -> Door:
    """Serve the channel on a socket that listens already. Whoever comes through it is that machine.

    `who` may be asked at each connection: while it answers None nobody knows yet whose machine that is, and it is told to ask again.
    """
    door = Door(one, who)
    door.server = await asyncio.start_server(door._take, sock=listening, limit=HEAD_BYTES)
    return door
