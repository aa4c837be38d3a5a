"""The relay of a host: its machines' files and terminals, for the web process, on a unix socket of the host's directory.

One relay serves a host at a time (a lock beside the socket; others wait for their turn), for two readers of a machine's terminal would each
get a part of what it prints. Each connection is a thread, and there are no more of them than a fixed number.
"""

import fcntl
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from workers.files.refusal import FileRefused
from workers.host.drivers import driver
from workers.host.identity import host_directory, host_id, runtime_directory
from workers.machine.driver import Machine, MachineError
from workers.machine.script import RunsScripts
from workers.models import HostRelay
from workers.relay import proof, trust
from workers.relay.address import LOCK_NAME, SOCKET_NAME, listen
from workers.relay.door import Door
from workers.relay.terminals import TERMINAL, TerminalDesk
from workers.relay.verbs import VERBS
from workers.wire import messages
from workers.wire.stream import Broken

log = logging.getLogger(__name__)

CONNECTIONS = 96
QUESTION_SECONDS = 10.0
RETRY_SECONDS = 2.0
#: Between two exchanges of transfers with one machine: whoever else waits for the guest's channel looks for it every 5 ms, and goes first.
GAP_SECONDS = 0.015
_SESSION = re.compile(r"[0-9a-z]{8,40}")

FindMachine = Callable[[str, int], Machine | None]


class Refused(Exception):
    """The answer to a question that cannot be met; `code` as the client knows it."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


class Relay:
    """`find_machine` gives the live machine of a session's epoch on this host, or None."""

    def __init__(self, directory: Path, find_machine: FindMachine):
        self._directory, self._find = directory, find_machine
        self._places = threading.BoundedSemaphore(CONNECTIONS)
        self._turns: dict[Path, threading.Lock] = {}
        self._terminals = TerminalDesk()
        self._listener: socket.socket | None = None
        self._closed = threading.Event()

    def serve(self) -> None:
        """Wait for the host's turn, then serve until `close` or the process ends; what fails is tried again."""
        while not self._closed.is_set():
            try:
                with open(self._directory / LOCK_NAME, "ab") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    self._accept()
            except OSError:
                if not self._closed.is_set():
                    log.exception("the relay does not serve, and tries again")
            self._closed.wait(RETRY_SECONDS)

    def close(self) -> None:
        self._closed.set()
        if self._listener is not None:
            with suppress(OSError):  # it has seen the end by itself, after a last connection
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self._terminals.close()

    def _accept(self) -> None:
        with listen(self._directory) as listener:
            self._listener = listener
            log.info("relay serves", extra={"socket": str(self._directory / SOCKET_NAME)})
            while not self._closed.is_set():
                sock, _ = listener.accept()
                self._take(sock)

    def _take(self, sock: socket.socket) -> None:
        if not self._places.acquire(blocking=False):
            _answer_and_close(sock, Refused("busy", f"The host already serves {CONNECTIONS} connections to machines. Nothing was done."))
            return
        threading.Thread(target=self._serve_one, args=(sock,), daemon=True, name="relay").start()

    def _serve_one(self, sock: socket.socket) -> None:
        try:
            with sock:
                self._converse(sock)
        except (Broken, OSError) as error:
            log.debug("a relay's connection ended", extra={"reason": repr(error)})
        except Exception:
            log.exception("a relay's connection failed")
        finally:
            self._places.release()

    def _converse(self, sock: socket.socket) -> None:
        sock.settimeout(QUESTION_SECONDS)
        asked, blob = messages.receive(sock)
        try:
            machine = self._machine(asked)
            if asked.get("verb") == TERMINAL:
                self._terminals.serve(sock, machine, asked)
                return
            header, answer = self._do(machine, asked, blob)
        except (Refused, FileRefused, MachineError) as error:
            _answer_and_close(sock, error)
            return
        messages.send(sock, {"ok": True, **header}, answer)

    def _machine(self, asked: dict[str, Any]) -> RunsScripts:
        session, epoch = asked.get("session"), asked.get("epoch")
        if not isinstance(session, str) or not _SESSION.fullmatch(session) or type(epoch) is not int:
            raise Refused("malformed", "The question names no machine.")
        machine = self._find(session, epoch)
        if machine is None:
            raise Refused("machine_dead", "The machine's process is gone.")
        if not isinstance(machine, RunsScripts):
            raise Refused("not_offered", "This host's machines offer no files and no terminal.")
        return machine

    def _do(self, machine: RunsScripts, asked: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        verb = VERBS.get(str(asked.get("verb")))
        if verb is None:
            raise Refused("malformed", "There is no such verb.")
        turn = self._turns.setdefault(machine.runtime, threading.Lock())
        if len(self._turns) > 10 * CONNECTIONS:  # of machines that are gone; a lock that is lost here costs an order, nothing else
            self._turns.clear()
        with turn:
            try:
                return verb(machine, asked, blob)
            except ValueError as error:
                raise Refused("malformed", f"The question is wrong about {error}.") from error
            finally:
                time.sleep(GAP_SECONDS)


def _answer_and_close(sock: socket.socket, error: Exception) -> None:
    with sock:
        sock.settimeout(QUESTION_SECONDS)
        try:
            messages.send(sock, {"ok": False, "code": str(getattr(error, "code", "failed")), "message": str(error)[:2000]})
        except OSError:
            pass  # nobody listens


def serve_relay() -> Relay:
    """This host's relay, in this process; where KEEPSTATE_RELAY_LISTEN names an address, for web processes of other machines too."""
    if settings.KEEPSTATE_RELAY_LISTEN is not None:
        address, port = settings.KEEPSTATE_RELAY_LISTEN
        told = settings.KEEPSTATE_RELAY_ADDRESS or address
        Door(host_directory(), address, port, trust.master_keys(), partial(tell, told)).start()
    return start(host_directory(), lambda session_id, epoch: driver().attach(runtime_directory(session_id, epoch)))


def tell(address: str, port: int, fingerprint: str) -> None:
    """Where web processes find it from now on."""
    try:
        marks = [proof.mark(master, fingerprint) for master in trust.master_keys()]
        facts = {"address": address, "port": port, "fingerprint": fingerprint, "key_marks": marks, "listens_since": Now()}
        HostRelay.objects.update_or_create(host_id=host_id(), defaults=facts)
    finally:
        connection.close()


def start(directory: Path, find_machine: FindMachine) -> Relay:
    """Serve from a thread of this process, for as long as it lives."""
    directory.mkdir(parents=True, exist_ok=True)
    relay = Relay(directory, find_machine)
    threading.Thread(target=relay.serve, daemon=True, name="relay").start()
    log.debug("relay waits for its turn", extra={"pid": os.getpid()})
    return relay
