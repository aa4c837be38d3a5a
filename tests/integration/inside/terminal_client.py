"""Clients of a console, as a test needs them: what was printed is collected, and waited for by its content."""

import json
import socket
import struct
import time
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

SECONDS = 30.0


class Console:
    """A WebSocket at a session's terminal. `close` is (code, reason) once the server has ended it."""

    def __init__(self, place: str, session: str, token: str | None, *, query: str = "", **options: Any):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        address = f"ws://{place}/api/v2/sessions/{session}/console{query}"
        self.socket: ClientConnection = connect(address, additional_headers=headers, max_size=None, max_queue=None, **options).__enter__()
        self.printed, self.notices, self.close = b"", list[dict[str, Any]](), (0, "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        self.socket.close()

    def type(self, data: bytes) -> None:
        self.socket.send(data)

    def resize(self, columns: int, rows: int) -> None:
        self.socket.send(json.dumps({"resize": [columns, rows]}))

    def until(self, wanted: bytes) -> bytes:
        """What was printed up to and with `wanted`; that is then forgotten."""
        self._receive_until(lambda: wanted in self.printed, repr(wanted))
        before, _, self.printed = self.printed.partition(wanted)
        return before + wanted

    def until_told(self, notice: dict[str, Any]) -> None:
        self._receive_until(lambda: notice in self.notices, str(notice))

    def until_told_of(self, what: str) -> None:
        self._receive_until(lambda: any(what in notice for notice in self.notices), what)

    def until_closed(self) -> tuple[int, str]:
        self._receive_until(lambda: self.close[0], "the end")
        return self.close

    def _receive_until(self, fact: Any, what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not fact():
            try:
                said = self.socket.recv(timeout=max(0.0, deadline - time.monotonic()))
            except ConnectionClosed:
                self.close = (self.socket.close_code or 0, self.socket.close_reason or "")
                assert fact(), f"closed {self.close} before {what}; the end was {self.printed[-500:]!r}"
                return
            if isinstance(said, bytes):
                self.printed += said
            else:
                self.notices.append(json.loads(said))


class Raw:
    """An HTTP/1.1 connection that asked for an upgrade."""

    def __init__(self, place: str, target: str, token: str, *, upgrade: str = "ks-attach", more: bytes = b"", window: int | None = None):
        host, port = place.rsplit(":", 1)
        self.socket = socket.socket()
        self.socket.settimeout(SECONDS)
        if window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.socket.connect((host, int(port)))
        head = (
            f"GET {target} HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {token}\r\nUpgrade: {upgrade}\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        self.socket.sendall(head.encode() + more)
        self.received = b""
        self.head = self.until(b"\r\n\r\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """At once, as a client that is killed with output unread."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    @property
    def status(self) -> int:
        return int(self.head.split()[1])

    def type(self, data: bytes) -> None:
        self.socket.sendall(data)

    def until(self, wanted: bytes) -> bytes:
        while wanted not in self.received:
            data = self.socket.recv(65536)
            assert data, f"closed before {wanted!r}; the end was {self.received[-500:]!r}"
            self.received += data
        before, _, self.received = self.received.partition(wanted)
        return before + wanted

    def rest(self) -> bytes:
        """All until the server closes."""
        while data := self.socket.recv(65536):
            self.received += data
        return self.received
