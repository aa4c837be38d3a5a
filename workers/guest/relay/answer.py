"""An answer as the program gets it: what of it was given, and what may be said in between."""

import time

from .asked import Asked, Program

#: The wall clock jumped so far against the other: the machine was saved in between, and a program that looks at the clock is in doubt.
JUMP_SECONDS = 5.0
#: While the gateway is away, a stream gets a keep-alive so often.
PING_SECONDS = 10.0
_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_REASONS = {
    200: "OK",
    204: "No Content",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    413: "Content Too Large",
    426: "Upgrade Required",
    429: "Too Many Requests",
    500: "Internal Server Error",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


class Other(Exception):
    """What comes is not the answer that was begun."""


class Answer:
    """`delivered`: bytes of the answer's body that the program's connection took. `call`: the gateway's name of it, once begun."""

    def __init__(self, program: Program, asked: Asked):
        self._program, self._asked = program, asked
        self.delivered = 0
        self.call: str | None = None
        self._ping, self._tail = b"", b""
        self._waited = 0.0
        self._clock = _difference()

    @property
    def begun(self) -> bool:
        return self.call is not None

    def begin(self, status: int, headers: list[tuple[str, str]], call: str, served: str, ping: str) -> None:
        """The head, once; later it must be of the same call. Raises Closed, Other."""
        if self.begun:
            if call != self.call:
                raise Other
            return
        self.call, self._ping = call, ping.encode()
        told = [*headers, ("x-keepstate-call", call)]
        if served in ("replayed", "extended"):
            told.append(("x-keepstate-replayed", "1"))
        told.append(("transfer-encoding", "chunked") if self._asked.modern else ("connection", "close"))
        if self._asked.modern and not self._asked.keeps:
            told.append(("connection", "close"))
        self._program.send(_head(status, told))

    def give(self, data: bytes) -> None:
        """Raises Closed."""
        self._send(data)
        self.delivered += len(data)
        self._tail = (self._tail + data)[-4:]
        self._waited = 0.0

    def ping(self) -> None:
        """A keep-alive of the answer's API, where that breaks no event. Raises Closed."""
        if self._ping and (not self.delivered or self._tail.endswith(_ENDS)):
            self._send(self._ping)

    def waited(self, seconds: float) -> None:
        """The gateway has been away for so much longer. A program that was saved meanwhile hears at once that somebody is there."""
        now, self._waited = _difference(), self._waited + seconds
        if abs(now - self._clock) > JUMP_SECONDS or self._waited >= PING_SECONDS:
            self._clock, self._waited = now, 0.0
            self.ping()

    def end(self) -> None:
        """Raises Closed."""
        if self._asked.modern:
            self._program.send(b"0\r\n\r\n")

    def plain(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """A whole answer that is no recorded call's. Raises Closed, Other."""
        if self.begun:
            raise Other
        kept = [*headers, ("content-length", str(len(body)))]
        if not self._asked.keeps:
            kept.append(("connection", "close"))
        self._program.send(_head(status, kept) + (b"" if self._asked.method == b"HEAD" else body))

    def _send(self, data: bytes) -> None:
        self._program.send(b"%x\r\n%b\r\n" % (len(data), data) if self._asked.modern else data)


def refusal(status: int, said: str) -> bytes:
    """The relay's own, whole, with the end of the connection; every client of the APIs can read it."""
    import json

    kind = {503: "overloaded_error", 413: "request_too_large"}.get(status, "invalid_request_error")
    body = json.dumps({"type": "error", "error": {"type": kind, "code": "ks_relay", "message": f"KeepState relay: {said}"}}).encode()
    again = [("x-should-retry", "true"), ("retry-after", "1")] if status == 503 else [("x-should-retry", "false")]
    return _head(status, [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close"), *again]) + body


def _head(status: int, headers: list[tuple[str, str]]) -> bytes:
    """A header's line ends where the header does, whatever it holds."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Answer')}"]
    lines += [f"{name}: {value}".replace("\r", " ").replace("\n", " ") for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


def _difference() -> float:
    return time.time() - time.monotonic()
