"""What ends an open tunnel from outside: a policy that was changed, a session that went on, silence. What they moved is written down."""

import asyncio
import logging

import psycopg

from gateway_app.egress import rows
from gateway_app.egress.proxy import DATABASE_SECONDS, Egress
from gateway_app.egress.rows import Standing
from gateway_app.egress.tunnel import Tunnel

log = logging.getLogger(__name__)

#: Policies of sessions with open tunnels are read so often: one query, whatever their number, and none while there is no tunnel.
LOOK_SECONDS = 0.5
#: So long without being able to read them, and every tunnel is cut: what may have been denied since is not known.
BLIND_SECONDS = 30.0
#: A tunnel through which nothing moved, either way.
IDLE_SECONDS = 600.0
WRITE_SECONDS = 2.0


async def watch(egress: Egress) -> None:
    """For as long as the process lives."""
    clock = asyncio.get_running_loop().time
    seen_at = clock()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            await look(egress)
            seen_at = clock()
        except Exception as error:  # whatever it is: a watch that ended would leave every tunnel open
            log.warning("the policies of open connections could not be read: %s", type(error).__name__)
            if clock() - seen_at > BLIND_SECONDS:
                egress.cut(set(egress.tunnels))
        egress.cut_idle(IDLE_SECONDS)


async def look(egress: Egress) -> None:
    """Cut what is let through no more. Raises what the database does."""
    tunnels = set(egress.tunnels)
    if not tunnels:
        return
    async with asyncio.timeout(DATABASE_SECONDS), egress.database.connection() as connection:
        found = await rows.standings(connection, {one.who.session_id for one in tunnels})
    egress.cut({one for one in tunnels if not _lets(found.get(one.who.session_id), one)})


def _lets(standing: Standing | None, tunnel: Tunnel) -> bool:
    return standing is not None and standing.is_of(tunnel.who) and standing.policy.allows(tunnel.wanted)


async def keep_writing(egress: Egress) -> None:
    """For as long as the process lives; what could not be written is tried again with what came since."""
    while True:
        await asyncio.sleep(WRITE_SECONDS)
        await write(egress)


async def write(egress: Egress) -> None:
    lines = egress.counts.take()
    if not lines:
        return
    try:
        async with asyncio.timeout(DATABASE_SECONDS), egress.database.connection() as connection:
            await rows.add(connection, lines)
    except (psycopg.Error, TimeoutError) as error:
        log.warning("what machines connected to could not be written down, and is tried again: %s", type(error).__name__)
        egress.counts.give_back(lines)
