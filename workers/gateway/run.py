"""One gateway process of a host, from its start to its end.

waits       for its turn: another one may still have the doors
serves      the doors of all machines; the database may come later, or go and come back
drains      after the first signal: the doors are shut and the turn is given on, so that a successor opens them at once; what was begun
            is read to its end, so long at most. A second signal ends that
"""

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from django.db import Error as DatabaseError
from django.db import close_old_connections

from gateway_app.egress.proxy import Egress
from gateway_app.egress.server import Door, egress, listen
from gateway_app.proxy.gateway import BEAT_SECONDS, Gateway
from gateway_app.proxy.server import Who, gateway
from gateway_app.proxy.settings import ProxySettings
from gateway_app.proxy.told import tell
from gateway_app.services import process
from workers.gateway import life
from workers.gateway.bell import hung
from workers.gateway.doors import Doorkeeper, Serve
from workers.gateway.places import Places

log = logging.getLogger(__name__)

#: Nobody need ring: the machines are looked for so often anyway.
LOOK_SECONDS = 1.0
TURN_SECONDS = 0.1
CLEAR_SECONDS = 60.0
RETRY_SECONDS = 1.0
#: What a process says of its own end may take so long.
FAREWELL_SECONDS = 5.0


@dataclass
class Ending:
    """Signals: the first one asks for the end in order, a second one for the end at once."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self) -> None:
        (self.at_once if self.asked.is_set() else self.asked).set()

    def obey(self, *numbers: signal.Signals) -> None:
        for number in numbers:
            asyncio.get_running_loop().add_signal_handler(number, self.ask)


@dataclass(frozen=True)
class House:
    """What a gateway process is given: its host and the machines there, what serves on which port of theirs, how long it may drain.

    `ready` is called once, when it has looked for machines for the first time. `egress_port`: of the machines' way to other hosts, if any.
    """

    host_id: str
    directory: Path
    places: Places
    serves: Mapping[int, Serve]
    settings: ProxySettings
    drain_seconds: float
    ready: Callable[[], None]
    egress_port: int | None = None


async def run(house: House, ending: Ending) -> None:
    """Returns after the end that was asked for. Raises OSError where the host's directory cannot be used."""
    house.directory.mkdir(parents=True, exist_ok=True)
    with life.living(house.directory) as name:
        serving = life.Serving(house.directory)
        if not await _turn(serving, ending):
            return
        async with gateway(house.settings, drain_seconds=0, name=name) as one, egress(one.database) as beyond:
            keeper = Doorkeeper(one, house.places, {**house.serves, **_ways_out(house, beyond)})
            async with lasting(_telling(one, keeper, house.host_id)):
                await _serve(house, keeper, ending)
                one.draining = True
                await keeper.shut()
                serving.release()
                await _drain(one, keeper, house.drain_seconds, ending)
            await _farewell(name)
    life.forget(house.directory, name)


def _ways_out(house: House, beyond: Egress) -> dict[int, Serve]:
    async def serve(_: Gateway, who: Who, listening: socket.socket) -> Door:
        return await listen(beyond, who, listening)

    return {} if house.egress_port is None else {house.egress_port: serve}


async def _turn(serving: life.Serving, ending: Ending) -> bool:
    """Whether it has come before the end was asked for."""
    told = False
    while not serving.take():
        if not told:
            log.info("another gateway serves this host's machines: this one waits for its turn")
        told = True
        if await _within(ending.asked, TURN_SECONDS):
            return False
    return True


async def _serve(house: House, keeper: Doorkeeper, ending: Ending) -> None:
    looked = asyncio.Event()
    with hung(house.directory) as rung:
        async with lasting(_looking(keeper, rung, looked), _clearing(house.directory)):
            await looked.wait()
            log.info("the gateway serves", extra={"doors": keeper.count})
            house.ready()
            async with lasting(_identifying(keeper, looked)):
                await ending.asked.wait()


async def _looking(keeper: Doorkeeper, rung: asyncio.Event, looked: asyncio.Event) -> None:
    while True:
        rung.clear()
        try:
            await keeper.look()
        except OSError as error:
            log.warning("the machines' networks cannot be looked at", extra={"reason": str(error)})
        looked.set()
        await _within(rung, LOOK_SECONDS)


async def _identifying(keeper: Doorkeeper, looked: asyncio.Event) -> None:
    while True:
        looked.clear()
        await keeper.identify()
        await looked.wait()


async def _telling(one: Gateway, keeper: Doorkeeper, host_id: str) -> None:
    took: float | None = None
    while True:
        try:
            took = await tell(one, host_id, keeper.count, took)
        except psycopg.Error:
            took = None
            log.warning("the database does not answer: what the gateway would tell of itself is not told")
        await asyncio.sleep(BEAT_SECONDS if took is not None else RETRY_SECONDS)


async def _clearing(directory: Path) -> None:
    """What processes that died had left open ends as unknown: at once at a start, for their relays ask for it already."""
    while True:
        pause = CLEAR_SECONDS
        for name in await asyncio.to_thread(life.dead, directory):
            try:
                ended = await asyncio.to_thread(_gone, name)
            except DatabaseError:
                pause = RETRY_SECONDS
                break
            life.forget(directory, name)
            log.info("a gateway process that ended is cleared up after", extra={"calls_unknown": ended})
        await asyncio.sleep(pause)


async def _drain(one: Gateway, keeper: Doorkeeper, seconds: float, ending: Ending) -> None:
    log.info("the gateway drains", extra={"calls": len(one.pumps)})
    ended: asyncio.Future[Any] = asyncio.gather(keeper.drain(), one.drain(seconds))
    at_once: asyncio.Future[Any] = asyncio.ensure_future(ending.at_once.wait())
    await asyncio.wait({ended, at_once}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for unfinished in (ended, at_once):
        unfinished.cancel()
    if one.pumps:
        log.warning("the gateway ends before calls that it reads: their end is unknown", extra={"calls": len(one.pumps)})
    await keeper.close()


async def _farewell(name: str) -> None:
    """Best effort: what is not said now is found by the next process, and by the beat within a minute."""
    try:
        await asyncio.wait_for(asyncio.to_thread(_gone, name), FAREWELL_SECONDS)
    except (DatabaseError, TimeoutError):
        log.warning("the database does not answer: what this gateway left open is cleared up later")


def _gone(name: str) -> int:
    try:
        return process.gone(name)
    finally:
        close_old_connections()


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


@asynccontextmanager
async def lasting(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """These run for as long as the block does. One that fails ends the block: a gateway that looks no more serves nobody."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
        yield
        for task in tasks:
            task.cancel()
