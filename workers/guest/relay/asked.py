"""What programs ask: HTTP/1.1 as clients of model APIs speak it, read whole and within bounds."""

import _socket
import _thread

from .wire import READ_BYTES, Socket, drawn

HEAD_BYTES = 64 * 1024
BODY_BYTES = 64 * 1024 * 1024
#: Of all requests that are held at once: what is kept is kept in the machine's memory.
HELD_BYTES = 2 * BODY_BYTES
_DRAIN_SECONDS = 2.0
#: They are of one connection alone, or said anew to the gateway.
_DROPPED = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
        *(b"content-length", b"host"),
    }
)
_OURS = b"x-keepstate-"


class Refused(Exception):
    """The relay itself refuses; `status` and a sentence for the program."""

    def __init__(self, status: int, said: str):
        super().__init__(said)
        self.status, self.said = status, said


class Closed(Exception):
    """The program's connection ended between two requests, or within one."""


class Held:
    """How many bytes of requests are kept, of all programs."""

    def __init__(self) -> None:
        self._lock, self._bytes = _thread.allocate_lock(), 0

    def take(self, count: int) -> None:
        with self._lock:
            if self._bytes + count > HELD_BYTES:
                raise Refused(503, f"More than {HELD_BYTES} bytes of requests are on their way. Nothing was sent.")
            self._bytes += count

    def give_back(self, count: int) -> None:
        with self._lock:
            self._bytes -= count


class Asked:
    """One request. `id` is drawn when all of it has come."""

    __slots__ = ("body", "headers", "id", "keeps", "method", "modern", "target")

    def __init__(self, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], body: bytearray, *, modern: bool, keeps: bool):
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.modern = modern  # HTTP/1.1: an answer may come in chunks
        self.keeps = keeps  # the connection may go on after the answer
        self.id = drawn()

    def head(self, offset: int) -> bytes:
        """For the gateway. HTTP/1.0, so that its answer comes without chunks; its frames say where it ends."""
        kept = [name + b": " + value for name, value in self.headers if name not in _DROPPED and not name.startswith(_OURS)]
        ours = [b"host: gateway", b"connection: close", b"content-length: %d" % len(self.body)]
        ours += [b"x-keepstate-relay: " + self.id.encode(), b"x-keepstate-offset: %d" % offset]
        return b"\r\n".join([self.method + b" " + self.target + b" HTTP/1.0", *ours, *kept, b"", b""])


class Program:
    """A program's connection, read request by request."""

    def __init__(self, sock: Socket, held: Held):
        self.sock, self._held = sock, held
        self._ahead = bytearray()

    def next(self) -> Asked:
        """Waits for it as long as it takes. Raises Closed, Refused. What it holds is given back by `done`."""
        head = self._head()
        lines = head.split(b"\r\n")
        words = lines[0].split(b" ")
        if len(words) != 3 or not words[1].startswith(b"/") or words[2] not in (b"HTTP/1.1", b"HTTP/1.0") or not words[0].isalpha():
            raise Refused(400, "This is no HTTP/1.1 request for a path. Nothing was sent.")
        headers = [_field(line) for line in lines[1:]]
        told = dict(headers)
        if b"websocket" in told.get(b"upgrade", b"").lower():
            raise Refused(426, "This gateway speaks plain HTTP. Nothing was sent.")
        body = self._body(headers, told)
        modern, wish = words[2] == b"HTTP/1.1", told.get(b"connection", b"").lower()
        return Asked(words[0], words[1], headers, body, modern=modern, keeps=modern and b"close" not in wish)

    def done(self, asked: Asked) -> None:
        self._held.give_back(len(asked.body))

    def _head(self) -> bytes:
        while True:
            while self._ahead[:2] == b"\r\n":  # an empty line between two requests
                del self._ahead[:2]
            end = self._ahead.find(b"\r\n\r\n")
            if 0 <= end <= HEAD_BYTES:
                head = bytes(self._ahead[:end])
                del self._ahead[: end + 4]
                return head
            if len(self._ahead) > HEAD_BYTES:
                raise Refused(431, f"The request's headers are longer than {HEAD_BYTES} bytes. Nothing was sent.")
            self._more()

    def _body(self, headers: list[tuple[bytes, bytes]], told: dict[bytes, bytes]) -> bytearray:
        lengths = {value for name, value in headers if name == b"content-length"}
        coding = told.get(b"transfer-encoding")
        if len(lengths) > 1 or (lengths and coding is not None) or coding not in (None, b"chunked"):
            raise Refused(400, "How long the request's body is, is not said clearly. Nothing was sent.")
        if b"100-continue" in told.get(b"expect", b"").lower() and not self._ahead:
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        try:
            if coding:
                self._chunks(body)
            elif lengths:
                self._take(body, _number(lengths.pop(), 10))
        except BaseException:
            self._held.give_back(len(body))
            raise
        return body

    def _chunks(self, body: bytearray) -> None:
        while count := _number(self._line().partition(b";")[0].strip(), 16):
            self._take(body, count)
            if self._line():
                raise Refused(400, "A chunk of the request's body does not end where it says. Nothing was sent.")
        while self._line():  # trailers say nothing of use here
            pass

    def _take(self, body: bytearray, count: int) -> None:
        if len(body) + count > BODY_BYTES:
            raise Refused(413, f"A request has at most {BODY_BYTES} bytes. Nothing was sent.")
        while count:
            if not self._ahead:
                self._more()
            piece = self._ahead[:count]
            self._held.take(len(piece))
            del self._ahead[: len(piece)]
            body += piece
            count -= len(piece)

    def _line(self) -> bytes:
        while (end := self._ahead.find(b"\r\n")) < 0:
            if len(self._ahead) > HEAD_BYTES:
                raise Refused(400, "A line within the request's body is too long. Nothing was sent.")
            self._more()
        line = bytes(self._ahead[:end])
        del self._ahead[: end + 2]
        return line

    def drain(self) -> None:
        """Read what a refused request still sends, a bounded amount: closed before that, the connection would take the refusal with it."""
        try:
            self.sock.shutdown(_socket.SHUT_WR)
            self.sock.settimeout(_DRAIN_SECONDS)
            left = 2 * BODY_BYTES
            while left > 0 and (piece := self.sock.recv(READ_BYTES)):
                left -= len(piece)
        except OSError:
            pass

    def _more(self) -> None:
        try:
            piece = self.sock.recv(READ_BYTES)
        except OSError as error:
            raise Closed from error
        if not piece:
            raise Closed
        self._ahead += piece

    def send(self, data: bytes) -> None:
        """Waits for as long as the program does not read. Raises Closed."""
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise Closed from error


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or name.strip() != name or any(byte < 33 or byte > 126 for byte in name):
        raise Refused(400, "A header of the request is none. Nothing was sent.")
    return name.lower(), value.strip()


def _number(text: bytes, base: int) -> int:
    """Raises Refused. Python takes signs, blanks and underscores in a number; HTTP does not."""
    digits = b"0123456789abcdefABCDEF"[: 10 if base == 10 else None]
    if not text or len(text) > 15 or any(byte not in digits for byte in text):
        raise Refused(400, "A length in the request is no number. Nothing was sent.")
    return int(text, base)
