"""An egress proxy over a real database, with one machine's door; beyond it names and addresses of the test's own, played by a server."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any

import uvloop
from asgiref.sync import sync_to_async

from gateway_app.egress import policy
from gateway_app.egress.addresses import Address
from gateway_app.egress.dial import Pair
from gateway_app.egress.policy import Rule
from gateway_app.egress.proxy import Egress
from gateway_app.egress.server import Door, egress, listen
from gateway_app.models import EgressPolicy
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.pool import pool
from gateway_app.proxy.server import Who
from gateway_app.states import EgressMode
from sessions_app.models import Account, Session
from tests.support.fleet import session_row

PUBLIC = "93.184.216.34"
HOST = "example.com"
REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/\r\nContent-Length: 0\r\n\r\n"


@dataclass
class World:
    """What is beyond the gateway. `names`: each name's answers, the last one again and again; a name that is not there is not found.

    A host echoes what it is sent, to the end of it; to a plain request it answers `answer`; None: not yet.
    """

    names: dict[str, list[list[str]]] = field(default_factory=lambda: {HOST: [[PUBLIC]]})
    dialled: list[tuple[str, int]] = field(default_factory=list)
    heard: bytearray = field(default_factory=bytearray)
    answer: bytes | None = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
    refuses: set[str] = field(default_factory=set)
    broken: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    def resolve(self, host: str) -> list[Address]:
        answers = self.names.get(host)
        if answers is None:
            raise socket.gaierror("not known")
        return [ip_address(one) for one in (answers.pop(0) if len(answers) > 1 else answers[0])]

    async def dial(self, address: Address, port: int) -> Pair:
        self.dialled.append((str(address), port))
        if str(address) in self.refuses:
            raise ConnectionRefusedError(111, "Connection refused")
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        whole = bytearray()
        try:
            while piece := await reader.read(65536):
                self.heard += piece
                if not (whole or piece).startswith((b"GET ", b"POST ")):
                    writer.write(piece)
                    await writer.drain()
                    continue
                whole += piece
                if self.answer is not None and _is_whole(bytes(whole)):
                    writer.write(self.answer)
                    break
            writer.write_eof()
        except OSError:
            self.broken.set()
        finally:
            writer.close()


def _is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    length = head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
    return bool(end) and len(body) >= int(length or 0)


@dataclass
class Outside:
    session: Session
    who: Channel
    world: World
    egress: Egress
    doors: list[Door]
    port: int

    async def door(self, who: Channel | Who) -> int:
        """Another channel's, of the same proxy."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.doors.append(await listen(self.egress, who, listening))
        return int(listening.getsockname()[1])

    async def ask(self, sent: str | bytes, *, port: int = 0) -> tuple[int, bytes]:
        """What a program sends at once, and all that it gets: the status, and what is behind the head."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port)
        writer.write(sent.encode() if isinstance(sent, str) else sent)
        writer.write_eof()
        try:
            got = await reader.read()
        finally:
            writer.close()
        head, _, body = got.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), body

    async def refusal(self, sent: str | bytes, *, port: int = 0) -> tuple[int, dict[str, Any]]:
        status, body = await self.ask(sent, port=port)
        return status, json.loads(body)["error"]

    async def tunnel(self, target: str = f"{HOST}:443", *, port: int = 0) -> Pair:
        """Open, and its first line read."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port)
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        return reader, writer

    async def allow(self, *rules: Rule, session: Session | None = None) -> None:
        """None: nothing is."""
        await sync_to_async(set_policy)(session or self.session, *rules)

    async def moved(self, **changes: Any) -> None:
        await sync_to_async(Session.objects.filter(id=self.session.id).update)(**changes)


def set_policy(session: Session, *rules: Rule) -> None:
    mode = EgressMode.ALLOW_LIST if rules else EgressMode.DENY
    told = [{"host": rule.host, "ports": list(rule.ports)} for rule in rules]
    EgressPolicy.objects.update_or_create(session=session, defaults={"mode": mode, "rules": told})
    assert policy.stored(mode, told).rules == rules


def channel(session: Session, **other: Any) -> Channel:
    return replace(Channel(session.account_id, session.id, session.epoch, frozenset({session.id})), **other)


@asynccontextmanager
async def outside(account: Account) -> AsyncIterator[Outside]:
    """A session that may reach the host on 443 and 80."""
    session = await sync_to_async(session_row)(account)
    world = World()
    server = await asyncio.start_server(world.serve, "127.0.0.1", 0)
    world.port = server.sockets[0].getsockname()[1]
    database = pool()
    await database.open(wait=True)
    doors: list[Door] = []
    try:
        async with egress(database, resolve=world.resolve, dial=world.dial) as one:
            at = Outside(session, channel(session), world, one, doors, 0)
            at.port = await at.door(at.who)
            await at.allow(Rule(HOST, (80, 443)))
            try:
                yield at
            finally:
                for door in doors:
                    await door.close()
    finally:
        server.close()
        await database.close()


def run(account: Account, act: Callable[[Outside], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        async with outside(account) as one:
            await act(one)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as the gateway's process runs
        runner.run(all_of_it())
