"""One machine's terminal and everyone at it: what the guest prints goes to all, and one of them types, the one who came last."""

import logging
import secrets
import threading
from collections.abc import Mapping
from typing import Any

from workers.machine.driver import MachineError
from workers.machine.script import RunsScripts
from workers.terminal import shell
from workers.terminal.visitor import CLOSED, LEFT, STOPPED, Visitor

log = logging.getLogger(__name__)

VISITORS = 16
#: What was printed last, for those who come later.
SCROLLBACK_BYTES = 64 * 1024
LOST: Mapping[str, Any] = {"output_lost": True}


class Full(Exception):
    """So many are at this terminal already."""


class Closed(Exception):
    """The last one left a moment ago, or the machine ended."""


class Hub:
    """Opens the terminal. Raises MachineError if the guest has none, or does not answer; then nothing stays open."""

    def __init__(self, machine: RunsScripts, columns: int, rows: int):
        self.closed = False
        self._machine = machine
        self._lock = threading.Lock()
        self._visitors: list[Visitor] = []
        self._writer: Visitor | None = None
        self._scrollback = bytearray()
        self._lost_unseen = False  # output was lost while nobody was here to be told
        self._nonce = secrets.token_hex(16)
        self._size: tuple[int, int] | None = None
        self._resizing = False
        self._line = machine.terminal()
        threading.Thread(target=self._read, daemon=True, name="terminal").start()
        try:
            shell.open_shell(machine, columns, rows, self._nonce)
        except MachineError:
            self.close(CLOSED)
            raise

    def join(self, visitor: Visitor) -> None:
        """Raises Full, Closed. The newest of those who want to type does."""
        with self._lock:
            if self.closed:
                raise Closed
            if len(self._visitors) >= VISITORS:
                raise Full
            visitor.show(bytes(self._scrollback))
            if self._lost_unseen:
                visitor.tell(LOST)
                self._lost_unseen = False
            self._visitors.append(visitor)
            self._choose_writer()

    def leave(self, visitor: Visitor) -> None:
        with self._lock:
            if visitor in self._visitors:
                self._visitors.remove(visitor)
            self._choose_writer()

    def close_if_empty(self) -> None:
        """With the last visitor the connection to the machine is closed; the shell in it lives on."""
        with self._lock:
            if self._visitors or self.closed:
                return
            self.closed = True
        self.close(CLOSED)

    def type(self, visitor: Visitor, data: bytes) -> None:
        """Waits while the machine is being saved. Raises MachineError."""
        if visitor is not self._writer:
            visitor.tell({"writer": False})
            return
        dropped = self._line.type(data)
        if dropped:
            visitor.tell({"input_dropped": dropped})

    def resize(self, visitor: Visitor, columns: int, rows: int) -> None:
        """Returns at once; of several sizes in a row the last one counts."""
        if visitor is not self._writer or columns not in shell.COLUMNS or rows not in shell.ROWS:
            return
        with self._lock:
            self._size = (columns, rows)
            if not self._resizing:
                self._resizing = True
                threading.Thread(target=self._resize, daemon=True, name="terminal-size").start()

    def close(self, why: str) -> None:
        with self._lock:
            self.closed = True
            leaving, self._visitors, self._writer = self._visitors, [], None
        for visitor in leaving:
            visitor.end(why)
        self._line.close()

    def _choose_writer(self) -> None:
        before = self._writer
        wanting = [visitor for visitor in self._visitors if visitor.may_write]
        self._writer = wanting[-1] if wanting else None
        if before is not self._writer:
            for visitor, writes in ((before, False), (self._writer, True)):
                if visitor is not None:
                    visitor.tell({"writer": writes})

    def _read(self) -> None:
        mark, tail = shell.end_mark(self._nonce), b""
        while data := self._line.read():
            self._show(data, self._line.lost())
            tail = (tail + data)[-(len(data) + len(mark)) :]
            if mark in tail:
                self.close(LEFT)
                return
            tail = tail[-len(mark) :]
        self.close(STOPPED)

    def _show(self, data: bytes, lost: bool) -> None:
        with self._lock:
            self._scrollback += data
            del self._scrollback[:-SCROLLBACK_BYTES]
            visitors = list(self._visitors)
            self._lost_unseen = self._lost_unseen or (lost and not visitors)
        for visitor in visitors:
            visitor.show(data)
            if lost:
                visitor.tell(LOST)

    def _resize(self) -> None:
        while True:
            with self._lock:
                size, self._size = self._size, None
                self._resizing = size is not None
            if size is None:
                return
            try:
                shell.resize(self._machine, *size)
            except MachineError as error:
                log.info("a terminal kept its size", extra={"reason": str(error), "code": error.code})
