"""Someone at a terminal: a connection that is written to by a thread of its own, from a bounded queue.

Who reads more slowly than the guest prints, for longer than the queue is, is sent away; the guest never waits.
"""

import json
import socket
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from workers.wire import frames

QUEUE_BYTES = 2 * 1024 * 1024
#: Why a visit ended.
STOPPED, LEFT, SLOW, FULL, CLOSED = "machine_stopped", "shell_ended", "too_slow", "full", "relay_closed"


class Visitor:
    """`may_write`: wants to type. The methods return at once and may be called from any thread."""

    def __init__(self, sock: socket.socket, may_write: bool):
        self.may_write = may_write
        self.sock = sock
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._ending = False
        self._changed = threading.Condition()
        threading.Thread(target=self._send_all, daemon=True, name="visitor").start()

    def show(self, output: bytes) -> None:
        for start in range(0, len(output), frames.FRAME_BYTES):
            self._offer(frames.frame(frames.OUTPUT, output[start : start + frames.FRAME_BYTES]))

    def tell(self, notice: Mapping[str, Any]) -> None:
        self._offer(frames.frame(frames.NOTICE, json.dumps(dict(notice)).encode()))

    def end(self, why: str) -> None:
        """The last frame; what was queued before it is still sent, unless the visitor was too slow for it."""
        with self._changed:
            if not self._ending:
                self._finish(why)

    def _offer(self, frame: bytes) -> None:
        with self._changed:
            if self._ending:
                return
            if self._queued + len(frame) > QUEUE_BYTES:
                self._queue.clear()
                self._finish(SLOW)
                return
            self._queue.append(frame)
            self._queued += len(frame)
            self._changed.notify()

    def _finish(self, why: str) -> None:
        self._queue.append(frames.frame(frames.END, json.dumps({"why": why}).encode()))
        self._ending = True
        self._changed.notify()

    def _send_all(self) -> None:
        try:
            while True:
                with self._changed:
                    while not self._queue:
                        self._changed.wait()
                    frame = self._queue.popleft()
                    self._queued -= len(frame)
                    last = self._ending and not self._queue
                self.sock.sendall(frame)
                if last:
                    return
        except OSError:
            pass  # the visitor has gone; who reads from the connection sees it too
        finally:
            with self._changed:
                self._ending = True
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
