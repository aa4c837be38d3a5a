"""The way of a machine to a host: what it asks is read, judged by its session's policy as of now, looked up, judged again, connected.

Who asks is decided by the channel, as for model calls. Nothing of what is asked or carried is logged.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from psycopg import OperationalError
from psycopg_pool import PoolTimeout

from gateway_app.egress import dial as dials
from gateway_app.egress import head, refusals, rows
from gateway_app.egress.addresses import Address
from gateway_app.egress.counts import Counts
from gateway_app.egress.dial import Dial, Pair
from gateway_app.egress.head import Asked
from gateway_app.egress.lookup import Lookups, NotResolved, Resolve
from gateway_app.egress.names import IsAddress, Target, Unreadable
from gateway_app.egress.refusals import Refusal
from gateway_app.egress.rows import Standing
from gateway_app.egress.tunnel import Tunnel
from gateway_app.proxy.answer import abort, ends_by_reset
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.pool import Pool
from gateway_app.states import EgressOutcome

log = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
DATABASE_SECONDS = 5.0
#: A refused program's connection is kept so long for it to read why; what it still sends is thrown away.
LINGER_SECONDS = 1.0
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Left(Exception):
    """The program went away before it had asked."""


class Egress:
    """One process's share. `resolve`, `dial` and `forbidden` are the system's own, unless a test has others."""

    def __init__(self, database: Pool, *, resolve: Resolve, dial: Dial, forbidden: Callable[[Address], str] = dials.forbidden):
        self.database, self.counts = database, Counts()
        self.lookups = Lookups(resolve)
        self.tunnels: set[Tunnel] = set()
        self.connections = 0
        self._dial, self._forbidden = dial, forbidden

    async def handle(self, who: Channel, machine: Pair) -> None:
        """One connection of the machine, to its end; a refusal is answered."""
        asked: Asked | None = None
        try:
            asked = await _asked(machine[0])
            host = await self._connected(who, asked.target)
        except Left:
            abort(machine[1].transport)
        except Refusal as refusal:
            self.refused(who, refusal)
            await refuse(machine, refusal, body=asked is None or asked.method != "HEAD")
        else:
            await self._carry(who, asked, machine, host)

    def refused(self, who: Channel, refusal: Refusal) -> None:
        if refusal.outcome is not None:
            self.counts.add(who.session_id, refusal.wanted, refusal.outcome, connections=1)

    def cut_idle(self, seconds: float, tasks: Collection["asyncio.Task[Any]"] | None = None) -> None:
        """Those through which nothing moved for so long, either way; of all, or of those that these tasks run."""
        since = asyncio.get_running_loop().time() - seconds
        self.cut({one for one in self.tunnels if one.moved_at < since and (tasks is None or one.task in tasks)})

    def cut(self, tunnels: set[Tunnel]) -> None:
        """Both ends of each are reset, now."""
        for tunnel in tunnels & self.tunnels:
            self.tunnels.discard(tunnel)
            self.counts.add(tunnel.who.session_id, tunnel.wanted, EgressOutcome.CUT, connections=1)
            tunnel.cut()

    async def standing(self, who: Channel) -> Standing:
        """As of now. Raises Refusal for a channel that is not its session's any more."""
        try:
            async with asyncio.timeout(DATABASE_SECONDS), self.database.connection() as connection:
                found = (await rows.standings(connection, [who.session_id])).get(who.session_id)
        except (OperationalError, PoolTimeout, TimeoutError):
            log.warning("the database does not answer a machine's connection", extra={"session_id": who.session_id})
            raise refusals.unavailable() from None
        if found is None or not found.is_of(who):
            raise refusals.not_running()
        return found

    async def _allowed(self, who: Channel, wanted: Target) -> None:
        if not (await self.standing(who)).policy.allows(wanted):
            raise refusals.denied(wanted, who.session_id)

    async def _connected(self, who: Channel, wanted: Target) -> Pair:
        """To an address that was judged; all that the name has are. Raises Refusal."""
        await self._allowed(who, wanted)
        try:
            found = await self.lookups.find(who.account_id, wanted.host)
        except NotResolved as why:
            raise refusals.unresolved(wanted, str(why)) from None
        for what in filter(None, map(self._forbidden, found)):
            raise refusals.forbidden(wanted, what)
        try:
            return await dials.first(self._dial, found, wanted.port)
        except TimeoutError:
            raise refusals.unreachable(wanted, "no answer in time") from None
        except OSError as error:
            raise refusals.unreachable(wanted, error.strerror or "the connection broke") from None

    async def _carry(self, who: Channel, asked: Asked, machine: Pair, host: Pair) -> None:
        """The policy is asked once more: to look up and to connect may have taken seconds. From here on a change of it cuts the tunnel."""
        tunnel = Tunnel(who, asked.target, machine, host, partial(self._count, who, asked.target))
        self.tunnels.add(tunnel)
        ends_by_reset(machine[1].transport, True)  # if this process is killed as well
        try:
            await self._allowed(who, asked.target)
            self.counts.add(who.session_id, asked.target, EgressOutcome.CONNECTED, connections=1)
            if asked.body_bytes is None:
                machine[1].write(_ESTABLISHED)
            else:
                host[1].write(asked.forward)
            await tunnel.run(asked.body_bytes)
            ends_by_reset(machine[1].transport, False)
            if asked.body_bytes is not None:
                await linger(machine)
            await tunnel.close()
        except Refusal as refusal:
            self.refused(who, refusal)
            abort(host[1].transport)
            ends_by_reset(machine[1].transport, False)
            await refuse(machine, refusal)
        except OSError:
            pass  # one side broke; the other does so below
        finally:
            self.tunnels.discard(tunnel)
            tunnel.reset()

    def _count(self, who: Channel, wanted: Target, sent: int, received: int) -> None:
        self.counts.add(who.session_id, wanted, EgressOutcome.CONNECTED, sent=sent, received=received)


async def _asked(reader: asyncio.StreamReader) -> Asked:
    """Raises Left or Refusal."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            data = await reader.readuntil(head.END)
    except TimeoutError:
        raise refusals.head_too_late(HEAD_SECONDS) from None
    except asyncio.LimitOverrunError:
        raise refusals.head_too_large(head.HEAD_BYTES) from None
    except (asyncio.IncompleteReadError, OSError):
        raise Left from None
    try:
        return head.read(data)
    except IsAddress as why:
        raise refusals.address(str(why)) from None
    except head.NoLength as why:
        raise refusals.no_length(str(why)) from None
    except Unreadable as why:
        raise refusals.unreadable(str(why)) from None


async def refuse(machine: Pair, refusal: Refusal, *, body: bool = True) -> None:
    """The refusal, and the end of the connection."""
    try:
        machine[1].write(refusal.response(body=body))
        machine[1].write_eof()
        await linger(machine)
    except OSError:
        pass  # it does not hear it


async def linger(machine: Pair) -> None:
    """A connection that is closed with bytes unread is reset, and its last words with it. Raises OSError."""
    reader, writer = machine
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while await reader.read(head.HEAD_BYTES):
                pass
            writer.close()
            await writer.wait_closed()
    except TimeoutError:
        pass
