"""The guest's relay beside the guest: the very files of the image as a process, and a line to the gateway that breaks where it is told."""

import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from gateway_app.proxy.answer import Frame
from tests.integration.gateway.house import House, until
from workers.guest.layout import RELAY_COMMAND

GUEST = Path(__file__).parents[3] / "workers" / "guest"
SILENCE_SECONDS = 0.4


@dataclass(frozen=True)
class Break:
    """One connection's fate: `how` (reset, close, hang) once that many bytes of the answer have passed; None: before its head."""

    how: str
    after: int | None


@dataclass
class Line:
    """What lies between relay and gateway. Each connection takes the next break, or none."""

    url: str = ""
    breaks: deque[Break] = field(default_factory=deque)
    connections: int = 0
    passed: int = 0  # bytes of answers
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        fate = self.breaks.popleft() if self.breaks else None
        try:
            there, back = await asyncio.open_connection(urlsplit(self.url).hostname, urlsplit(self.url).port)
        except OSError:
            _reset(writer)
            return
        self._open.add(back)
        both = {asyncio.create_task(_copy(reader, back)), asyncio.create_task(self._pass(there, writer, fate))}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)  # a relay that leaves is seen to leave
        finally:
            for one in both:
                one.cancel()
            back.close()
            writer.close()

    async def _pass(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, fate: Break | None) -> None:
        """The answer frame by frame; its own bytes are counted, not the frames'."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            if fate is None or fate.after is not None:
                await self._frames(there, writer, fate)
            if fate is not None:
                await _break(writer, fate)

    async def _frames(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, fate: Break | None) -> None:
        head = await there.readuntil(b"\r\n\r\n")
        writer.write(head)
        if b"x-keepstate-frames" not in head:
            return await _copy(there, writer)
        left = fate.after if fate is not None else None
        while True:
            start = await there.readexactly(5)
            kind, length = struct.unpack("!BI", start)
            payload = await there.readexactly(length)
            if left is not None and left <= length and kind in (Frame.DATA, Frame.END):
                writer.write((start + payload)[: 5 + left])
                return await writer.drain()
            if kind == Frame.DATA:
                left, self.passed = None if left is None else left - length, self.passed + length
            writer.write(start + payload)
            await writer.drain()

    def cut(self) -> None:
        """Every connection that is open breaks, as when the machine is another host's."""
        for writer in self._open:
            _reset(writer)
        self._open.clear()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()


async def _break(writer: asyncio.StreamWriter, fate: Break) -> None:
    if fate.how == "hang":
        await asyncio.sleep(3600)
    if fate.how == "reset":
        _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    if writer.is_closing():
        return
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@dataclass
class Relay:
    process: asyncio.subprocess.Process
    url: str
    line: Line

    @property
    def serving(self) -> int:
        """The process that serves, which is the first one's child."""
        (child,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(child)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.serving, number)


@asynccontextmanager
async def relay(at: House, *, silence: float = SILENCE_SECONDS) -> AsyncIterator[Relay]:
    """A relay whose gateway is the house's, over a line of the test's."""
    line = Line(at.url)
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    way = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with _process(way, silence) as (process, url):
        try:
            yield Relay(process, url, line)
        finally:
            line.cut()
            server.close()


@asynccontextmanager
async def relay_to(gateway: str) -> AsyncIterator[str]:
    """A relay's URL; as it is in a guest, but for the gateway's address."""
    async with _process(urlsplit(gateway).netloc) as (_, url):
        yield url


@asynccontextmanager
async def _process(way: str, *silence: float) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    with _kept_port() as port:
        told = [str(GUEST), str(port), way, *(str(seconds) for seconds in silence)]
        process = await asyncio.create_subprocess_exec(sys.executable, *RELAY_COMMAND, *told)
        try:
            await until(lambda: _listens(port))
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            await process.wait()


@contextlib.contextmanager
def _kept_port() -> Iterator[int]:
    """One that nobody else is given until the end. Who names it, and says that it may have been used before, can listen on it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
