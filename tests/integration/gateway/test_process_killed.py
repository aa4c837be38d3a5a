"""Gateway processes that are killed, in real networks of machines: a machine's network outlives them, and who comes next answers in it."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway_app.proxy import channel as channels
from keepstate_site.provider.script import Act
from tests.integration.gateway.house import SECRET, until
from tests.integration.gateway.loopback import Host, on_host
from tests.support.fleet import Tenant
from tests.support.networks import remove_networks
from workers.gateway import run as runs
from workers.gateway.namespaces import Namespaces
from workers.gateway.run import Ending
from workers.machine.network import namespace
from workers.machine.network.addresses import GATEWAY_ADDRESS, GATEWAY_PORT
from workers.machine.process import libc
from workers.machine.process.threads import apart

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(namespace.obstacle() is not None, reason="network namespaces need root and /dev/net/tun"),
]
STREAM = b'{"model": "fake-model", "max_tokens": 100, "stream": true, "messages": [{"role": "user", "content": "Go on."}]}'


def test_a_killed_gateways_connections_are_reset_and_the_next_one_answers_in_the_same_network(owner: Tenant) -> None:
    async def act(at: Host) -> None:
        net = at.directory / namespace.DIRECTORY_NAME / at.place().name
        tap = namespace.make(net)
        try:
            async with killed_at_the_end(at):
                await until(lambda: answers(net))
                at.fake.script.add([Act(pace_seconds=0.05, words=400)])
                reader, writer = await connected(net)
                writer.write(post(at))
                assert b"200" in await reader.readline()
                await reader.readuntil(b"content_block_delta")
            with pytest.raises(ConnectionResetError):  # not an end that a client could take for one
                await to_its_end(reader)
            async with killed_at_the_end(at):
                await until(lambda: answers(net))
        finally:
            os.close(tap)
            remove_networks(at.directory)

    on_host(owner.account, act)


def test_a_machine_whose_network_is_made_is_answered_when_the_bell_has_rung_without_waiting_for_the_next_look(owner: Tenant) -> None:
    async def act(at: Host) -> None:
        net = at.directory / namespace.DIRECTORY_NAME / at.place().name
        async with killed_at_the_end(at, look_seconds=3600):
            await until(lambda: serves(at))
            tap = namespace.make(net)
            try:
                await until(lambda: answers(net))
            finally:
                os.close(tap)
                remove_networks(at.directory)

    on_host(owner.account, act)


async def serves(at: Host) -> bool:
    return (at.directory / "ready").exists()


@asynccontextmanager
async def killed_at_the_end(at: Host, *, look_seconds: float = 1.0) -> AsyncIterator[None]:
    """A gateway in a fork of this process."""
    pid = os.fork()
    if pid == 0:
        try:
            runs.LOOK_SECONDS = look_seconds
            places = Namespaces(at.directory / namespace.DIRECTORY_NAME)
            asyncio.run(runs.run(at.house(places, (at.directory / "ready").touch), Ending()))
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(os.waitpid, pid, 0)


async def connected(net: os.PathLike[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """As the machine of that network connects. Raises OSError."""

    def connect() -> socket.socket:
        with open(net, "rb") as file:
            libc.setns(file.fileno(), libc.CLONE_NEWNET)
        return socket.create_connection((GATEWAY_ADDRESS, GATEWAY_PORT), timeout=10)

    return await asyncio.open_connection(sock=await asyncio.to_thread(apart, connect))


async def to_its_end(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


async def answers(net: os.PathLike[str]) -> bool:
    try:
        reader, writer = await connected(net)
        writer.write(b"HEAD /api/hello HTTP/1.0\r\n\r\n")
        line = await reader.readline()
        writer.close()
    except OSError:
        return False
    return b" 200 " in line


def post(at: Host) -> bytes:
    credential = channels.credential(at.session.id, SECRET)
    head = f"POST /v1/messages HTTP/1.1\r\nHost: gateway\r\nx-api-key: {credential}\r\ncontent-length: {len(STREAM)}\r\n\r\n"
    return head.encode() + STREAM
