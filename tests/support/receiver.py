"""A webhook's receiver on loopback: a real HTTP server that keeps what it got and answers as it was told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: The longest that an answer is held back.
HELD_SECONDS = 60


@dataclass
class Receiver:
    """`answers`: (status, headers) of the next requests, in order; 200 once they are used up. Each is answered once `open` is set."""

    url: str
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    open: threading.Event = field(default_factory=threading.Event)


@contextmanager
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            mine.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            mine.open.wait(HELD_SECONDS)
            status, headers = mine.answers.pop(0) if mine.answers else (200, {})
            self.send_response(status)
            for name, value in {"Content-Length": "0", **headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    mine = Receiver(f"http://127.0.0.1:{server.server_address[1]}/hook?of=us")
    mine.open.set()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield mine
    finally:
        mine.open.set()
        server.shutdown()
        thread.join()
        server.server_close()
