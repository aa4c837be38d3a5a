"""One request's way through the gateway, over as many connections as it takes: always the same id, from the byte that the program has."""

import struct

from .answer import Answer, Other, refusal
from .asked import Asked, Closed, Program
from .wire import Gateway, GatewayLost, dial, pause

TYPE_CHECKING = False  # typing itself takes a while to import
if TYPE_CHECKING:
    from typing import Any

FRAMES = "application/x-keepstate-frames"
HEAD, DATA, PING, END, CUT, REFUSED = 1, 2, 3, 4, 5, 6  # gateway_app.proxy.answer.Frame
_HEAD_BYTES = 128 * 1024
_PLAIN_BYTES = 17 * 1024 * 1024
_PIECE_BYTES = 65536
_NOT_PASSED = ("connection", "content-length", "keep-alive", "date", "server")

FIRST_PAUSE, LAST_PAUSE = 0.05, 1.0
CONNECT_SECONDS = 3.0
#: A gateway tells of itself every ten seconds.
SILENCE_SECONDS = 25.0
#: For which a request that no gateway has had waits for one; and a call that may have begun, for its answer.
UNSENT_SECONDS = 60.0
BEGUN_SECONDS = 600.0


class Cut(Exception):
    """The gateway says that there is no more of this answer to be had."""


class Unavailable(Exception):
    """It is there, and serves nothing at the moment: what it said."""

    def __init__(self, headers: list[tuple[str, str]], body: bytes):
        super().__init__()
        self.headers, self.body = headers, body


class Way:
    """Where the gateway is, and for how long it may be silent."""

    def __init__(self, address: tuple[str, int], silence: float = SILENCE_SECONDS):
        self.address, self.silence = address, silence


class Call:
    def __init__(self, way: Way, program: Program, asked: Asked):
        self._way, self._program, self._asked = way, program, asked
        self.answer = Answer(program, asked)
        self._away = 0.0  # seconds in which nothing came
        self._pause = FIRST_PAUSE
        self._may_run = False  # a gateway had the whole request, and has not said that it sent nothing

    def carry(self) -> None:
        """On return the program has the whole answer. Raises Closed, ProgramLeft, Other, Cut: its connection must be reset."""
        said: Unavailable | None = None
        while True:
            waited = self._pause
            try:
                return self._once()
            except GatewayLost as error:
                waited += error.seconds
            except Unavailable as error:
                said = error
            if self._away > (BEGUN_SECONDS if self._may_run else UNSENT_SECONDS):
                return self._give_up(said)
            pause(self._program.sock, self._pause)
            self._away += waited
            self.answer.waited(waited)
            self._pause = min(LAST_PAUSE, 2 * self._pause)

    def _once(self) -> None:
        before = self._may_run
        gateway = dial(self._way.address, self._program.sock, seconds=CONNECT_SECONDS, silence=self._way.silence)
        try:
            gateway.send(memoryview(self._asked.head(self.answer.delivered)))
            gateway.send(memoryview(self._asked.body))
            self._may_run = True
            status, headers = _head(gateway)
            if dict(headers).get("content-type", "").startswith(FRAMES):
                return self._frames(gateway)
            return self._plain(gateway, status, headers)
        except Unavailable:
            self._may_run = before
            raise
        finally:
            gateway.close()

    def _frames(self, gateway: Gateway) -> None:
        """To the end of the answer, or of the connection."""
        while True:
            kind, length = struct.unpack("!BI", gateway.exactly(5))
            self._away, self._pause = 0.0, FIRST_PAUSE
            if kind == HEAD:
                told = _told(gateway, length)
                self.answer.begin(told["status"], _pairs(told), told["call"], told["served"], told["ping"])
            elif kind == DATA:
                self._data(gateway, length)
            elif kind == PING:
                self.answer.ping()
            elif kind == END:
                return self.answer.end()
            elif kind == CUT:
                raise Cut
            elif kind == REFUSED:
                told = _told(gateway, length)
                return self._refused(told["status"], _pairs(told), told["body"].encode())
            else:
                raise Other

    def _data(self, gateway: Gateway, length: int) -> None:
        while length:
            piece = gateway.piece(min(length, _PIECE_BYTES))
            if not piece:
                raise GatewayLost
            length -= len(piece)
            self.answer.give(piece)

    def _plain(self, gateway: Gateway, status: int, headers: list[tuple[str, str]]) -> None:
        """What is no recorded call's answer: passed on whole. A gateway that says 503 has sent nothing: it is asked again."""
        told = dict(headers)
        body = b"" if self._asked.method == b"HEAD" else _whole(gateway, told.get("content-length"))
        self._refused(status, [(name, value) for name, value in headers if name not in _NOT_PASSED], body)

    def _refused(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        if status == 503:
            raise Unavailable(headers, body)
        self.answer.plain(status, headers, body)

    def _give_up(self, said: Unavailable | None) -> None:
        """A call that may have begun is broken off, so that nobody takes it for one that was never made."""
        if self._may_run:
            raise Cut
        if said is not None:
            return self.answer.plain(503, said.headers, said.body)
        self._program.send(refusal(503, "No gateway answers this machine. Nothing was sent."))
        raise Closed


def _head(gateway: Gateway) -> tuple[int, list[tuple[str, str]]]:
    lines = gateway.until(b"\r\n\r\n", _HEAD_BYTES).decode("utf-8", "surrogateescape").split("\r\n")
    words = lines[0].split(" ", 2)
    if len(words) < 2 or not words[1].isdecimal():
        raise GatewayLost
    fields = [line.partition(":") for line in lines[1:]]
    return int(words[1]), [(name.lower(), value.strip()) for name, _, value in fields]


def _told(gateway: Gateway, length: int) -> "dict[str, Any]":
    """A frame's JSON. Raises Other."""
    import json  # with the first call, for it would take a third of the relay's start

    if length > _HEAD_BYTES:
        raise Other
    told: dict[str, Any] = json.loads(gateway.exactly(length))
    return told


def _pairs(told: "dict[str, Any]") -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in told["headers"]]


def _whole(gateway: Gateway, told: str | None) -> bytes:
    """Up to the length that is told, else to the end of the connection."""
    if told is not None:
        length = int(told) if told.isdecimal() and len(told) < 12 else _PLAIN_BYTES + 1
        if length > _PLAIN_BYTES:
            raise Other
        return gateway.exactly(length)
    taken = bytearray()
    while piece := gateway.piece():
        taken += piece
        if len(taken) > _PLAIN_BYTES:
            raise Other
    return bytes(taken)
