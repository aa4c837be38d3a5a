"""One connection to the guest's agent (qemu-ga). What it reads was written by the guest and is taken for hostile: bounded, checked,
never evaluated.

One client at a time: an flock in the runtime directory orders the workers' threads and processes. A connection begins with
guest-sync-delimited, so that bytes of before a resume, of a timeout or of a client that died are passed over.
"""

import fcntl
import json
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from workers.machine.driver import MachineError

LOCK_NAME = "guest.lock"
LOCK_POLL_SECONDS = 0.005
STALE_LIMIT = 32 * 1024 * 1024  # bytes of an answer that nobody waited for
RESPONSE_LIMIT = 64 * 1024
READ_BYTES = 256 * 1024
ANSWER_SECONDS = 8.0  # an agent that has just synchronised answers at once; a loaded, emulated one within this
SENTINEL = b"\xff"


class GuestRefused(Exception):
    """The guest agent answered with an error. The text is the guest's, cut to a few hundred characters."""


class NoAnswer(Exception):
    """The connection gave no usable answer and must not be used again."""


def lock_channel(runtime: Path, deadline: float) -> BinaryIO:
    """Until the returned file is closed nobody else talks to the guest. Raises `guest_silent` if another does until the deadline
    (monotonic).
    """
    try:
        lock = open(runtime / LOCK_NAME, "ab")  # noqa: SIM115  the caller closes it
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MachineError("machine_dead", f"There is no machine in {runtime}.") from error
    while not _try_lock(lock.fileno()):
        if time.monotonic() >= deadline:
            lock.close()
            raise MachineError("guest_silent", "The guest's channel was busy with other requests all the time; nothing was sent.")
        time.sleep(LOCK_POLL_SECONDS)
    return lock


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class GuestConnection:
    """A connected socket, owned by the caller. Its methods raise NoAnswer; times are monotonic."""

    def __init__(self, sock: socket.socket):
        self._sock = sock

    def synchronise(self, deadline: float) -> None:
        """The sentinel byte makes the agent drop a half-read request; its answer comes after a sentinel, and what lies before that is
        stale.
        """
        number = secrets.randbits(31)
        self._send(SENTINEL + _encode("guest-sync-delimited", {"id": number}), deadline)
        received, passed = b"", 0
        while passed < STALE_LIMIT:
            received += self._receive(deadline)
            *before, received = received.split(SENTINEL)
            passed += sum(map(len, before))
            line, newline, _ = received.partition(b"\n")
            if newline and _decode(line) == {"return": number}:
                return
            if len(received) > RESPONSE_LIMIT:
                passed, received = passed + len(received), b""
        raise NoAnswer("it sends without end and does not synchronise")

    def request(self, command: str, arguments: Mapping[str, object], deadline: float, response_limit: int = RESPONSE_LIMIT) -> object:
        """Send one command and return its answer, of whatever JSON type the guest chose. Raises GuestRefused too."""
        (answer,) = self.requests([(command, arguments)], deadline, response_limit)
        if isinstance(answer, GuestRefused):
            raise answer
        return answer

    def requests(
        self, commands: Sequence[tuple[str, Mapping[str, object]]], deadline: float, response_limit: int = RESPONSE_LIMIT
    ) -> list[object]:
        """Send commands at once, which the agent carries out in turn, and return each one's answer, or its GuestRefused.

        Emulated guests are slow to wake: what belongs together costs one waking. `response_limit` bounds all answers together.
        """
        deadline = min(deadline, time.monotonic() + ANSWER_SECONDS)
        self._send(b"".join(_encode(command, arguments) for command, arguments in commands), deadline)
        received, lines = bytearray(), 0
        while lines < len(commands):
            piece = self._receive(deadline)
            lines += piece.count(b"\n")
            received += piece
            if len(received) > response_limit:
                raise NoAnswer(f"its answer is longer than {response_limit} bytes")
        return [_answer(line) for line in bytes(received).split(b"\n")[: len(commands)]]

    def _send(self, data: bytes, deadline: float) -> None:
        self._sock.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            self._sock.sendall(data)
        except OSError as error:
            raise NoAnswer(f"the channel broke: {error}") from error

    def _receive(self, deadline: float) -> bytes:
        self._sock.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            data = self._sock.recv(READ_BYTES)
        except TimeoutError as error:
            raise NoAnswer("nothing usable came in time") from error
        except OSError as error:
            raise NoAnswer(f"the channel broke: {error}") from error
        if not data:
            raise NoAnswer("the channel was closed")
        if time.monotonic() > deadline:
            raise NoAnswer("nothing usable came in time")
        return data


def _encode(command: str, arguments: Mapping[str, object]) -> bytes:
    return json.dumps({"execute": command, "arguments": dict(arguments)} if arguments else {"execute": command}).encode() + b"\n"


def _answer(line: bytes) -> object:
    message = _decode(line)
    if isinstance(message, dict) and "return" in message:
        return message["return"]
    if isinstance(message, dict) and isinstance(message.get("error"), dict):
        return GuestRefused(str(message["error"].get("desc", "no reason given"))[:300])
    raise NoAnswer("its answer is not one of the agent's protocol")


def _decode(line: bytes) -> object:
    """None for anything that is not JSON (json refuses numbers of thousands of digits and nesting beyond the stack)."""
    try:
        decoded: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return decoded
