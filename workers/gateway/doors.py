"""The doors of one gateway process: a listener in each machine's network, for as long as the machine's epoch lasts.

found in the directory      its doors are opened, at once and before anybody has said whose it is: until then it is told to ask again
known to the database       what comes through its doors is that session's, in that epoch
epoch over, or gone         its doors are closed, and what was being answered breaks
database silent             what is known stays so; what is new waits
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import psycopg

from gateway_app.proxy.channel import Channel
from gateway_app.proxy.gateway import Gateway
from gateway_app.proxy.machines import channels
from gateway_app.proxy.server import Who
from workers.gateway.places import Place, Places

log = logging.getLogger(__name__)


class Open(Protocol):
    """A listener that serves."""

    async def shut(self) -> None:
        """Take no new connection; those that there are stay."""

    async def drain(self) -> None:
        """Return when they have ended, each after what it is about."""

    async def close(self) -> None:
        """Break those that there are."""


#: Who comes through a door before it is known whose it is waits so long for it.
KNOWN_SECONDS = 5.0

Serve = Callable[[Gateway, Who, socket.socket], Awaitable[Open]]


@dataclass
class Doors:
    """Of one machine. `over`: its epoch is, and nothing is opened for it any more."""

    place: Place
    over: bool = False
    opened: dict[int, Open] = field(default_factory=dict)
    failures: int = 0
    _channel: "asyncio.Future[Channel]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def who(self) -> Channel | None:
        """None if the database has not said it for a while."""
        try:
            return await asyncio.wait_for(asyncio.shield(self._channel), KNOWN_SECONDS)
        except TimeoutError:
            return None

    async def tell(self, channel: Channel | None) -> None:
        """Whose machine it is, or None: that epoch is over. What was told once stays so for as long as the epoch lasts."""
        if channel is None:
            self.over = True
            await self.close()
        elif not self._channel.done():
            self._channel.set_result(channel)

    async def close(self) -> None:
        opened, self.opened = self.opened, {}
        await asyncio.gather(*(one.close() for one in opened.values()))


class Doorkeeper:
    """`serves`: what listens on which port of every machine's network."""

    def __init__(self, gateway: Gateway, places: Places, serves: Mapping[int, Serve]):
        self._gateway, self._places, self._serves = gateway, places, serves
        self._doors: dict[Place, Doors] = {}
        self._database_silent = False

    @property
    def count(self) -> int:
        return sum(bool(doors.opened) for doors in self._doors.values())

    async def look(self) -> None:
        """Close what is gone, open what is new. What fails is tried again at the next look."""
        found = await asyncio.to_thread(self._places.found)
        for place in [place for place in self._doors if place not in found]:
            await self._doors.pop(place).close()
            log.info("a machine's door is closed", extra={"session_id": place.session_id, "epoch": place.epoch})
        for place in found - self._doors.keys():
            self._doors[place] = Doors(place)
        wanting = [doors for doors in self._doors.values() if not doors.over and len(doors.opened) < len(self._serves)]
        await asyncio.gather(*(self._open(doors) for doors in wanting))

    async def _open(self, doors: Doors) -> None:
        try:
            for port in self._serves.keys() - doors.opened.keys():
                listening = await asyncio.to_thread(self._places.listen, doors.place, port)
                doors.opened[port] = await self._serves[port](self._gateway, doors.who, listening)
        except OSError as error:
            doors.failures += 1
            if doors.failures > 1:  # the first time its network may be in the making
                facts = {"session_id": doors.place.session_id, "epoch": doors.place.epoch, "reason": str(error)}
                log.warning("a machine's door cannot be opened", extra=facts)
        else:
            log.info("a machine's door is open", extra={"session_id": doors.place.session_id, "epoch": doors.place.epoch})

    async def identify(self) -> None:
        """Ask the database whose the machines are, all at once, and close the doors of those whose epoch is over."""
        asked = list(self._doors.values())
        if not asked:
            return
        try:
            known = await channels(self._gateway.database, [(doors.place.session_id, doors.place.epoch) for doors in asked])
        except psycopg.Error:
            if not self._database_silent:
                log.warning("the database does not answer: new machines wait, and calls are told to come again")
            self._database_silent = True
            return
        if self._database_silent:
            log.info("the database answers again")
        self._database_silent = False
        for doors in asked:
            await doors.tell(known.get((doors.place.session_id, doors.place.epoch)))

    async def shut(self) -> None:
        """No machine gets in any more: from here on another process can open the doors."""
        await asyncio.gather(*(one.shut() for one in self._opened()))

    async def drain(self) -> None:
        """Returns when all that was being answered is."""
        await asyncio.gather(*(one.drain() for one in self._opened()))

    def _opened(self) -> list[Open]:
        return [one for doors in self._doors.values() for one in doors.opened.values()]

    async def close(self) -> None:
        await asyncio.gather(*(doors.close() for doors in self._doors.values()))
        self._doors.clear()
