"""A store that answers each request, with 503: in the place of the S3 server, on its port, while that is stopped."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.support.seaweed import S3Server

_ERROR = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>as planned</Message></Error>"
_PIECE_BYTES = 1 << 16


class _Handler(BaseHTTPRequestHandler):
    def _refuse(self) -> None:
        left = int(self.headers.get("Content-Length", 0))
        while left > 0 and (piece := self.rfile.read(min(left, _PIECE_BYTES))):  # else its sender hears of a reset, not of our answer
            left -= len(piece)
        self.send_response_only(503)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(_ERROR)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(_ERROR)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _refuse  # noqa: N815  the base class looks for these names


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that gave up."""


@contextmanager
def unwilling(server: S3Server) -> Iterator[None]:
    """Prerequisite: the main thread. At its end the server itself is started again, which takes its time: it is not waited for."""
    server.kill()
    instead = _Server(("127.0.0.1", urlsplit(server.endpoint).port or 0), _Handler)
    thread = threading.Thread(target=instead.serve_forever, name="unwilling-store", kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        instead.shutdown()
        thread.join()
        instead.server_close()
        server.start(wait=False)
