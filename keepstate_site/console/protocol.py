"""uvicorn's HTTP protocol with one upgrade more than its own.

It overrides the three methods by which uvicorn hands a connection to its WebSocket protocol. They are not of its documented interface:
the version is pinned, and tests/integration/inside/test_console.py says at once if a later one does it otherwise.
"""

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

UPGRADE = b"ks-attach"
HEAD_END = b"\r\n\r\n"
BUFFER_BYTES = 32 * 1024
#: A connection whose other end takes nothing for so long is ended by the kernel; nobody else can end a WebSocket that does not read.
STUCK_MILLISECONDS = 60_000


class ConsoleProtocol(HttpToolsProtocol):
    _received = b""  # the end of what came, to find the bytes after a request's head in it

    def data_received(self, data: bytes) -> None:
        self._received = self._received[-len(HEAD_END) :] + data
        super().data_received(data)

    def _should_upgrade(self) -> bool:
        return self._get_upgrade() == UPGRADE or super()._should_upgrade()

    def handle_websocket_upgrade(self) -> None:
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK_MILLISECONDS)
        if self._get_upgrade() != UPGRADE:
            super().handle_websocket_upgrade()
            return
        from keepstate_site.console.attach import attach  # the server loads this module before the apps are ready

        self.connections.discard(self)
        reader = asyncio.StreamReader(limit=BUFFER_BYTES, loop=self.loop)
        protocol = _Attached(reader, self.connections)
        writer = asyncio.StreamWriter(self.transport, protocol, reader, self.loop)
        protocol.connection_made(self.transport)
        self.transport.set_protocol(protocol)
        rest = self._received.partition(HEAD_END)[2]
        if rest:
            reader.feed_data(rest)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self.headers}
        peer = self.client[0] if self.client else ""
        visit = attach(self.url.decode("latin-1"), headers, reader, writer, encrypted=self.scheme == "https", peer=peer)
        task = self.loop.create_task(visit)
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)


class _Attached(asyncio.StreamReaderProtocol):
    """Among the server's connections, so that a stopping server ends it as it ends a WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, connections: set[Any]):
        super().__init__(reader)
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection = transport
        self._connections.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        self._connection.close()
