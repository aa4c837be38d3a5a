"""The relay as a service: a socket that listens for as long as the machine runs, and a process that serves it and may die.

The first process only holds the socket and starts the second anew when that ends: its programs' connections break by reset, and no program
is refused. Without anything under way neither process wakes up, so that they write nothing that a save would have to keep.
"""

import _socket
import _thread
import posix
import select
import sys
import time

from .answer import Other, refusal
from .asked import Closed, Held, Program, Refused
from .call import Call, Cut, Way
from .wire import ProgramLeft, Socket, reset

HOST, PORT = "127.0.0.1", 8790
GATEWAY = "10.0.2.2:80"
CONNECTIONS = 256
_STACK_BYTES = 256 * 1024
_AGAIN_SECONDS = 0.2
_LISTENS = "/run/keepstate/relay"
_PROTECTED = "-900"  # as the agent is: a program that takes all memory does not take the relay


def main(arguments: list[str]) -> None:
    """`[PORT [GATEWAY_HOST:PORT [SILENCE_SECONDS]]]`. Never returns."""
    port = int(arguments[0]) if arguments else PORT
    host, _, gateway_port = (arguments[1] if len(arguments) > 1 else GATEWAY).rpartition(":")
    way = Way((host, int(gateway_port)), *(float(text) for text in arguments[2:3]))
    _protect()
    listening = _listen(port)
    _come_forward()
    while True:
        held, kept = posix.pipe()
        if not posix.fork():
            posix.close(kept)
            try:
                serve(listening, way, held)
            finally:
                posix._exit(1)
        posix.close(held)
        posix.wait()
        posix.close(kept)
        time.sleep(_AGAIN_SECONDS)


def _listen(port: int) -> Socket:
    """What is left of an earlier first process goes on for a moment; it is waited for."""
    while True:
        sock = Socket(_socket.AF_INET, _socket.SOCK_STREAM)
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
            sock.listen(CONNECTIONS)
            return sock
        except OSError:
            sock.close()
            time.sleep(_AGAIN_SECONDS)


def _protect() -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(_PROTECTED)
    except OSError:
        pass  # not as root: beside the guest


def _come_forward() -> None:
    """It gave way while the machine started. Now it listens, and says so: /usr/lib/keepstate/exec waits for that."""
    try:
        posix.setpriority(posix.PRIO_PROCESS, 0, 0)
        open(_LISTENS, "w").close()
    except OSError:
        pass  # not as root: beside the guest


def serve(listening: Socket, way: Way, held: int) -> None:
    """Until the first process is gone, which is when `held` can be read: the next one needs the port."""
    _thread.stack_size(_STACK_BYTES)
    room, requests = Room(CONNECTIONS), Held()
    poll = select.poll()
    poll.register(listening, select.POLLIN)
    poll.register(held, select.POLLIN)
    while True:
        if any(fd == held for fd, _ in poll.poll()):
            return
        try:
            sock = Socket(fileno=listening._accept()[0])
        except OSError:
            time.sleep(_AGAIN_SECONDS)  # no descriptors, or no memory, at the moment
            continue
        sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        if room.entered():
            _thread.start_new_thread(_serve_one, (sock, way, requests, room))
        else:
            _turn_away(sock)


class Room:
    """For so many at once."""

    def __init__(self, places: int):
        self._lock, self._free = _thread.allocate_lock(), places

    def entered(self) -> bool:
        with self._lock:
            if self._free == 0:
                return False
            self._free -= 1
            return True

    def left(self) -> None:
        with self._lock:
            self._free += 1


def _turn_away(sock: Socket) -> None:
    """At once, whatever it asks: nobody may wait here."""
    sock.setblocking(False)
    try:
        sock.send(refusal(503, f"{CONNECTIONS} connections are open. Nothing was sent."))
        sock.shutdown(_socket.SHUT_WR)
    except OSError:
        pass
    sock.close()


def _serve_one(sock: Socket, way: Way, requests: Held, room: Room) -> None:
    try:
        _conversation(Program(sock, requests), way)
        sock.close()
    except (Closed, ProgramLeft):
        sock.close()
    except (Cut, Other):
        reset(sock)
    except Exception as error:
        reset(sock)
        print(f"keepstate relay: {type(error).__name__}", file=sys.stderr)  # noqa: T201  of what it was about, nothing
    finally:
        room.left()


def _conversation(program: Program, way: Way) -> None:
    """Request by request, until one asks for the end."""
    while True:
        try:
            asked = program.next()
        except Refused as error:
            program.send(refusal(error.status, error.said))
            program.drain()
            return
        try:
            Call(way, program, asked).carry()
        finally:
            program.done(asked)
        if not asked.keeps:
            return
