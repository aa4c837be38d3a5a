"""A line to a server that loses connections without a word, as a NAT that forgets them: what is sent on them goes nowhere, for ever."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit

_PIECE_BYTES = 1 << 18


@dataclass
class LossyLine:
    upstream: str
    endpoint: str = ""
    passed: int = 0  # bytes of answers
    asked_in_vain: set["_Handler"] = field(default_factory=set)  # connections that were lost, and on which something came
    _open: set["_Handler"] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def lose(self) -> int:
        """How many connections were open. Each stays open, and silent; those that are made from now on are as good as any."""
        with self._lock:
            lost = [one for one in self._open if not one.lost]
            for one in lost:
                one.lost = True
        return len(lost)


class _Handler(BaseRequestHandler):
    server: "_Server"
    lost = False

    def handle(self) -> None:
        line, parts = self.server.line, urlsplit(self.server.line.upstream)
        with socket.create_connection((str(parts.hostname), parts.port or 0)) as there:
            with line._lock:
                line._open.add(self)
            back = threading.Thread(target=self._copy, args=(there, self.request, True), daemon=True)
            back.start()
            self._copy(self.request, there, False)
            back.join()
            with line._lock:
                line._open.discard(self)

    def _copy(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        """Until the source ends, which a lost connection is told of by its client alone."""
        with suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                if self.lost:
                    self.server.line.asked_in_vain.add(self)
                else:
                    target.sendall(piece)
                    self.server.line.passed += len(piece) if answers else 0
        if not (answers and self.lost):
            for end in (source, target):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    line: LossyLine


@contextmanager
def lossy_line(upstream: str) -> Iterator[LossyLine]:
    """`upstream`: scheme, host and port of the server."""
    server = _Server(("127.0.0.1", 0), _Handler)
    line = server.line = LossyLine(upstream, f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, name="lossy-line", kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield line
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
