"""A relay's terminals: one hub per machine, made by the first visitor and gone with the last."""

import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.machine.driver import MachineError
from workers.machine.script import RunsScripts
from workers.terminal.hub import Closed, Full, Hub
from workers.terminal.shell import COLUMNS, ROWS
from workers.terminal.visitor import CLOSED, FULL, STOPPED, Visitor
from workers.wire import frames, messages

TERMINAL = "terminal"


class TerminalDesk:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hubs: dict[Path, Hub] = {}
        self._opening: dict[Path, threading.Lock] = {}

    def serve(self, sock: socket.socket, machine: RunsScripts, asked: Mapping[str, Any]) -> None:
        """Answer, then pass frames until either side ends. Raises MachineError before the answer, Broken, OSError after it."""
        columns, rows = _within(asked.get("columns"), COLUMNS, 80), _within(asked.get("rows"), ROWS, 24)
        hub = self._hub(machine, columns, rows)
        try:
            messages.send(sock, {"ok": True})
            sock.settimeout(None)
            _visit(hub, Visitor(sock, may_write=asked.get("view") is not True), columns, rows)
        finally:
            hub.close_if_empty()

    def close(self) -> None:
        with self._lock:
            hubs = list(self._hubs.values())
        for hub in hubs:
            hub.close(CLOSED)

    def _hub(self, machine: RunsScripts, columns: int, rows: int) -> Hub:
        with self._lock:
            opening = self._opening.setdefault(machine.runtime, threading.Lock())
        with opening:  # a guest that is slow to answer keeps only its own visitors waiting
            with self._lock:
                self._forget_closed()
                known = self._hubs.get(machine.runtime)
            if known is not None:
                return known
            hub = Hub(machine, columns, rows)
            with self._lock:
                self._hubs[machine.runtime] = hub
            return hub

    def _forget_closed(self) -> None:
        self._hubs = {runtime: hub for runtime, hub in self._hubs.items() if not hub.closed}
        self._opening = {runtime: lock for runtime, lock in self._opening.items() if runtime in self._hubs or lock.locked()}


def _visit(hub: Hub, visitor: Visitor, columns: int, rows: int) -> None:
    why = CLOSED
    try:
        hub.join(visitor)
        hub.resize(visitor, columns, rows)
        while True:
            _take(hub, visitor, *frames.receive_frame(visitor.sock))
    except Full:
        why = FULL
    except Closed:
        pass
    except MachineError:
        why = STOPPED
    finally:
        hub.leave(visitor)
        visitor.end(why)


def _take(hub: Hub, visitor: Visitor, kind: bytes, data: bytes) -> None:
    if kind == frames.INPUT:
        hub.type(visitor, data)
    elif kind == frames.SIZE and len(data) == frames.SIZES.size:
        hub.resize(visitor, *frames.SIZES.unpack(data))


def _within(value: object, allowed: range, otherwise: int) -> int:
    return value if type(value) is int and value in allowed else otherwise
