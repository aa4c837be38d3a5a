"""A gateway over a real database, beside the fake provider, with one machine's channel: all in the test's own loop."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
from aiohttp.test_utils import TestServer
from asgiref.sync import sync_to_async
from django.db import connections

from gateway_app.proxy import channel as channels
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.gateway import Gateway
from gateway_app.proxy.server import gateway, listen
from gateway_app.proxy.settings import ProxySettings
from gateway_app.states import Provider
from keepstate_site.provider.app import Provider as FakeProvider
from sessions_app.models import Account, Session
from tests.support.calling import calling_session

SECRET = b"s" * 32
PROVIDER_KEY = "sk-ant-planted-key-0042"
BODY = {"model": "fake-model", "max_tokens": 100, "messages": [{"role": "user", "content": "Go on."}]}
STREAM = {**BODY, "stream": True}
MESSAGES = "/v1/messages"


@dataclass
class Got:
    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool = True

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class House:
    """`channel` is the machine's; `url` its door; `provider` the fake provider's address."""

    session: Session
    channel: Channel
    fake: FakeProvider
    provider: str
    gate: Gateway
    url: str
    client: aiohttp.ClientSession
    doors: list[Any] = field(default_factory=list)

    async def ask(self, body: Any = None, *, path: str = MESSAGES, method: str = "POST", url: str = "", **headers: str) -> Got:
        """As a program in the machine asks: with the machine's credential, unless another is given."""
        sent = {"x-api-key": channels.credential(self.session.id, SECRET), "anthropic-version": "2023-06-01"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else json.dumps(BODY if body is None else body).encode()
        taken = bytearray()
        async with self.client.request(method, (url or self.url) + path, data=data if method == "POST" else None, headers=sent) as answer:
            try:
                async for piece in answer.content.iter_any():
                    taken += piece
            except aiohttp.ClientError:
                return Got(answer.status, dict(answer.headers), bytes(taken), whole=False)
            return Got(answer.status, dict(answer.headers), bytes(taken))

    def act(self, **fate: Any) -> None:
        from keepstate_site.provider.script import Act

        self.fake.script.add([Act.of(fate)])

    async def reading(self) -> bool:
        return bool(self.gate.pumps)

    @property
    def bill(self) -> dict[str, Any]:
        return self.fake.bill.told()

    async def door(self, who: Channel) -> str:
        """Another channel's door of the same gateway."""
        return await open_door(self.gate, who, self.doors)

    async def moved(self, **changes: Any) -> str:
        """The machine went on: the session's row changes, and its channel with it. Returns the new door."""
        await sync_to_async(Session.objects.filter(id=self.session.id).update)(**changes)
        return await self.door(replace(self.channel, **{name: value for name, value in changes.items() if name == "epoch"}))


@asynccontextmanager
async def house(account: Account) -> AsyncIterator[House]:
    session = await sync_to_async(calling_session)(account, PROVIDER_KEY)
    fake = FakeProvider()
    server = TestServer(fake.application())
    await server.start_server()
    base = str(server.make_url("")).rstrip("/")
    doors: list[Any] = []
    who = Channel(account.id, session.id, session.epoch, frozenset({session.id}))
    async with gateway(provided(base), drain_seconds=5) as gate, aiohttp.ClientSession() as client:
        try:
            yield House(session, who, fake, base, gate, await open_door(gate, who, doors), client, doors)
        finally:
            for door in doors:
                await door.close()
            await server.close()
            await sync_to_async(connections.close_all)()


def provided(base: str) -> ProxySettings:
    """Every provider at that address, and the tests' secret for credentials."""
    return ProxySettings(dict.fromkeys(Provider, base), [SECRET])


async def open_door(gate: Gateway, who: Channel, doors: list[Any]) -> str:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    doors.append(await listen(gate, who, listening))
    return f"http://127.0.0.1:{port}"


def run(account: Account, act: Callable[[House], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        try:
            async with house(account) as one:
                await act(one)
        finally:
            await sync_to_async(connections.close_all)()  # of the thread that asked for the test; the database goes when all are

    asyncio.run(all_of_it())


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Look again until it is so; the test's own limit of time ends what never is."""
    while not await true():  # noqa: ASYNC110  what is waited for is in a database
        await asyncio.sleep(0.005)
