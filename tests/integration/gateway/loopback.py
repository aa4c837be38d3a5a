"""A host whose machines' networks are ports of loopback: the whole gateway process in the test's own loop, all of it but the namespaces."""

import asyncio
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.test_utils import TestServer
from asgiref.sync import sync_to_async
from django.db import connections

from gateway_app.proxy import channel as channels
from gateway_app.proxy.server import listen
from gateway_app.proxy.settings import ProxySettings
from gateway_app.states import Provider
from keepstate_site.provider.app import Provider as FakeProvider
from keepstate_site.provider.script import Act
from sessions_app.models import Account, Session
from tests.integration.gateway.house import BODY, MESSAGES, PROVIDER_KEY, SECRET
from tests.support.calling import calling_session
from workers.gateway.places import Place, Places
from workers.gateway.run import Ending, House, run

PORT = 80
EGRESS_PORT = 3128
LIMIT = 30.0


@dataclass
class Loopback:
    """Networks of machines: a place's port is where its machine reaches the gateway."""

    there: set[Place] = field(default_factory=set)
    ports: dict[Place, int] = field(default_factory=dict)
    egress_ports: dict[Place, int] = field(default_factory=dict)

    def found(self) -> set[Place]:
        return set(self.there)

    def listen(self, place: Place, port: int) -> socket.socket:
        if place not in self.there:
            raise FileNotFoundError(place.name)
        ports = self.egress_ports if port == EGRESS_PORT else self.ports
        listening = socket.create_server(("127.0.0.1", ports.get(place, 0)))
        ports[place] = listening.getsockname()[1]
        return listening


@dataclass
class Host:
    session: Session
    directory: Path
    places: Loopback
    fake: FakeProvider
    base: str
    client: aiohttp.ClientSession
    account: Account

    def place(self, session: Session | None = None, epoch: int = 1) -> Place:
        return Place((session or self.session).id, epoch, made=1)

    @asynccontextmanager
    async def gateway(self, *, drain_seconds: float = 20.0) -> AsyncIterator["Running"]:
        """A gateway process that serves; at the end it is asked to end, if it was not."""
        running = self.begun(drain_seconds=drain_seconds)
        try:
            await asyncio.wait_for(running.serves.wait(), LIMIT)
            yield running
        finally:
            running.ending.asked.set()
            await asyncio.wait_for(running.task, LIMIT)

    def begun(self, *, drain_seconds: float = 20.0) -> "Running":
        serves, ending = asyncio.Event(), Ending()
        house = self.house(self.places, serves.set, drain_seconds=drain_seconds)
        return Running(asyncio.create_task(run(house, ending)), ending, serves)

    def house(self, places: Places, ready: Callable[[], None], *, drain_seconds: float = 20.0) -> House:
        settings = ProxySettings(dict.fromkeys(Provider, self.base), [SECRET])
        return House("h-test", self.directory, places, {PORT: listen}, settings, drain_seconds, ready, EGRESS_PORT)

    def ring(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.sendto(b"", str(self.directory / "gateway.sock"))

    def post(self, place: Place | None = None, body: Any = None, **headers: str) -> Any:
        """A machine's call, to be entered: `async with host.post() as answer`."""
        where = place or self.place()
        sent = {"x-api-key": channels.credential(where.session_id, SECRET), "anthropic-version": "2023-06-01"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(f"http://127.0.0.1:{self.places.ports.get(where, 1)}{MESSAGES}", json=body or BODY, headers=sent)

    async def status(self, place: Place | None = None) -> int | None:
        """Of one call that is read to its end; None where nobody listens."""
        try:
            async with self.post(place) as answer:
                await answer.read()
                return int(answer.status)
        except aiohttp.ClientConnectionError:
            return None

    def act(self, **fate: Any) -> None:
        self.fake.script.add([Act.of(fate)])


@dataclass
class Running:
    task: "asyncio.Task[None]"
    ending: Ending
    serves: asyncio.Event


def on_host(account: Account, act: Callable[[Host], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        session = await sync_to_async(calling_session)(account, PROVIDER_KEY)
        fake = FakeProvider()
        server = TestServer(fake.application())
        await server.start_server()
        directory = Path(tempfile.mkdtemp(prefix="ks-"))
        connector = aiohttp.TCPConnector(force_close=True)
        try:
            async with aiohttp.ClientSession(connector=connector) as client:
                base = str(server.make_url("")).rstrip("/")
                places = Loopback()
                host = Host(session, directory, places, fake, base, client, account)
                places.there.add(host.place())
                await act(host)
        finally:
            await server.close()
            shutil.rmtree(directory)
            await sync_to_async(connections.close_all)()

    asyncio.run(all_of_it())
