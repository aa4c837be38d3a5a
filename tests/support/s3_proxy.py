"""A small HTTP proxy in front of a real S3 server that misbehaves as planned. The faults themselves: s3_faults.py."""

import http.client
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Signer

from checkpoints_app.store.backends.s3.place import DEFAULT_REGION
from tests.support.seaweed import S3Server


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def conditional(self) -> bool:
        return "if-none-match" in self.headers


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


Fault = Callable[["Exchange"], None]


@dataclass
class _Planned:
    fault: Fault
    method: str
    part: str
    left: int


@dataclass
class FaultProxy:
    upstream: S3Server
    endpoint: str = ""
    requests: list[Request] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    _pieces: tuple[int, float] = (1, 0)
    _plans: list[_Planned] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, fault: Fault, method: str, *, part: str = "", times: int = 1_000_000) -> None:
        """The next `times` requests with this method, and `part` in their path and query, meet the fault. Earlier plans go first."""
        with self._lock:
            self._plans.append(_Planned(fault, method, part, times))

    def receive_slowly(self, *, pieces: int, pause: float) -> None:
        """The bodies of requests from now on are taken in so many pieces, with a pause in seconds before each."""
        self._pieces = (pieces, pause)

    def receive(self, source: BufferedIOBase, length: int) -> bytes:
        pieces, pause = self._pieces
        body = bytearray()
        while len(body) < length:
            self.closing.wait(pause)
            if not (piece := source.read(min(length - len(body), -(-length // pieces)))):
                break
            body += piece
        return bytes(body)

    def heal(self) -> None:
        self._pieces = (1, 0)
        with self._lock:
            self._plans.clear()
            self.requests.clear()

    def count(self, method: str) -> int:
        with self._lock:
            return sum(request.method == method for request in self.requests)

    def fault_for(self, request: Request) -> Fault:
        with self._lock:
            self.requests.append(request)
            for plan in self._plans:
                if plan.left and plan.method == request.method and plan.part in request.path:
                    plan.left -= 1
                    return plan.fault
        return lambda exchange: exchange.give(exchange.forward())


@dataclass
class Exchange:
    """One request, and the means to answer it."""

    proxy: FaultProxy
    request: Request
    handler: BaseHTTPRequestHandler

    def forward(self, changed: Request | None = None) -> Answer:
        """The server's answer to the request as it came, or to a changed one that is signed anew."""
        request = _signed(changed, self.proxy.upstream) if changed else self.request
        connection = http.client.HTTPConnection(urlsplit(self.proxy.upstream.endpoint).netloc, timeout=30)
        try:
            connection.request(request.method, request.path, request.body or None, dict(request.headers))
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def without(self, *names: str) -> Request:
        return replace(self.request, headers={name: value for name, value in self.request.headers.items() if name not in names})

    def give(self, answer: Answer, body_bytes: int | None = None) -> None:
        """Send the answer, or only so many bytes of its body before the connection ends."""
        self.handler.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.handler.send_header(name, value)
        length = answer.headers.get("Content-Length") if self.request.method == "HEAD" else str(len(answer.body))
        if answer.status != 204:
            self.handler.send_header("Content-Length", length or "0")
        self.handler.end_headers()
        self.handler.wfile.write(answer.body[:body_bytes])
        self.handler.wfile.flush()
        if body_bytes is not None:
            self.drop()

    def drop(self) -> None:
        """End the connection without another byte."""
        self.handler.close_connection = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def _exchange(self) -> None:
        body = self.server.proxy.receive(self.rfile, int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, body)
        self.server.proxy.fault_for(request)(Exchange(self.server.proxy, request, self))

    do_GET = do_PUT = do_HEAD = do_DELETE = _exchange  # noqa: N815  the base class looks for these names

    def log_message(self, *_: Any) -> None:
        """Quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    proxy: FaultProxy

    def handle_error(self, *_: Any) -> None:
        """A client that gave up is what these tests are about."""


@contextmanager
def fault_proxy(upstream: S3Server) -> Iterator[FaultProxy]:
    server = _Server(("127.0.0.1", 0), _Handler)
    proxy = server.proxy = FaultProxy(upstream, f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, name="fault-proxy", kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _signed(request: Request, upstream: S3Server) -> Request:
    kept = {
        name: value
        for name, value in request.headers.items()
        if name not in ("authorization", "x-amz-date", "x-amz-content-sha256", "host", "content-length", "expect", "connection")
    }
    signed = AWSRequest(request.method, upstream.endpoint + request.path, kept, request.body)
    credentials = upstream.credentials
    S3SigV4Auth(Signer(credentials.access_key, credentials.secret_key), "s3", DEFAULT_REGION).add_auth(signed)
    host = urlsplit(upstream.endpoint).netloc
    return replace(request, headers={**dict(signed.headers.items()), "host": host})
