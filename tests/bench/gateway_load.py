"""Clients of the bench of the gateway: one call after another on one connection, and many at once. Their own cost is kept small."""

import asyncio
import socket
import time
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self, cast

import uvloop


@dataclass(frozen=True)
class Request:
    """`bytes_` as they go over the wire."""

    host: str
    port: int
    bytes_: bytes


@dataclass(frozen=True)
class Took:
    """Milliseconds from the request to the first byte of the answer's body, and to its last."""

    first: float
    total: float


def request(url: str, path: str, body: bytes, headers: dict[str, str]) -> Request:
    parts = urllib.parse.urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    told = {"host": f"{host}:{port}", "content-type": "application/json", "content-length": str(len(body)), **headers}
    head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in told.items()) + "\r\n"
    return Request(host, port, head.encode() + body)


class BadAnswer(Exception):
    """Not a whole 200: a bench that measures refusals measures nothing."""


class Answer:
    """Takes the bytes of one HTTP answer until it is whole."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._body = self._length = -1
        self.first = 0.0

    def feed(self, data: bytes) -> bool:
        """Whether the answer is whole. Raises BadAnswer."""
        self._data += data
        if self._body < 0 and not self._head():
            return False
        if not self.first and len(self._data) > self._body:
            self.first = time.perf_counter()
        if self._length >= 0:
            return len(self._data) - self._body >= self._length
        return self._data.endswith(b"0\r\n\r\n")

    def _head(self) -> bool:
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return False
        lines = bytes(self._data[:end]).lower().split(b"\r\n")
        if b" 200" not in lines[0]:
            raise BadAnswer(bytes(self._data[:2000]).decode("utf-8", "replace"))
        self._body = end + 4
        self._length = next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), -1)
        return True


class Caller:
    """One connection that stays open, one call after another."""

    def __init__(self, host: str, port: int):
        self._socket = socket.create_connection((host, port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, asked: Request) -> Took:
        """Raises BadAnswer, or OSError where the answer breaks off."""
        answer = Answer()
        began = time.perf_counter()
        self._socket.sendall(asked.bytes_)
        while True:
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the answer broke off")
            if answer.feed(data):
                return Took((answer.first - began) * 1000, (time.perf_counter() - began) * 1000)


class _Many(asyncio.Protocol):
    """One of the connections that call at once; each asks anew as soon as it was answered."""

    def __init__(self, asked: Request, left: list[int], took: list[float], done: "asyncio.Future[None]"):
        self._asked, self._left, self._took, self._done = asked, left, took, done

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def _next(self) -> None:
        if not self._left[0]:
            self._transport.close()
            return
        self._left[0] -= 1
        self._answer, self._began = Answer(), time.perf_counter()
        self._transport.write(self._asked.bytes_)

    def data_received(self, data: bytes) -> None:
        try:
            whole = self._answer.feed(data)
        except BadAnswer as error:
            self._transport.abort()
            self._done.set_exception(error)
            return
        if whole:
            self._took.append((time.perf_counter() - self._began) * 1000)
            self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            if error is None:
                self._done.set_result(None)
            else:
                self._done.set_exception(error)


@dataclass(frozen=True)
class Burst:
    """`rate`: calls a second; `took`: milliseconds of each."""

    rate: float
    took: Sequence[float]


def burst(asked: Request, calls: int, at_once: int) -> Burst:
    """So many calls, so many of them under way at any time. Raises BadAnswer, or OSError where an answer breaks off."""
    return uvloop.run(_burst(asked, calls, at_once))


async def _burst(asked: Request, calls: int, at_once: int) -> Burst:
    loop = asyncio.get_running_loop()
    left, took = [calls], list[float]()
    ends = [loop.create_future() for _ in range(at_once)]
    began = time.perf_counter()
    for end in ends:
        await loop.create_connection(partial(_Many, asked, left, took, end), asked.host, asked.port)
    await asyncio.gather(*ends)
    if len(took) != calls:
        raise ConnectionError(f"{calls} calls were made and {len(took)} were answered")
    return Burst(calls / (time.perf_counter() - began), took)
