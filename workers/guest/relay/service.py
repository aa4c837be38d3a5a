"""The relay as a service: a socket that listens for as long as the machine runs, and a process that serves it and may die.

The first process only holds the socket and starts the second anew when that ends: its programs' connections break by reset, and no program
is refused. Without anything under way neither process wakes up, so that they write nothing that a save would have to keep.
"""

import os
import select
import signal
import socket
import sys
import threading
import time

from .answer import Other, refusal
from .asked import Closed, Held, Program, Refused
from .call import Call, Cut, Way
from .wire import ProgramLeft, reset

HOST, PORT = "127.0.0.1", 8790
GATEWAY = "10.0.2.2:80"
CONNECTIONS = 256
_STACK_BYTES = 256 * 1024
_AGAIN_SECONDS = 0.2
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
        held, kept = os.pipe()
        if not os.fork():
            os.close(kept)
            try:
                serve(listening, way, held)
            finally:
                os._exit(1)
        os.close(held)
        os.wait()
        os.close(kept)
        time.sleep(_AGAIN_SECONDS)


def _listen(port: int) -> socket.socket:
    """What is left of an earlier first process goes on for a moment; it is waited for."""
    while True:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
    """It gave way while the machine started; from now on programs wait for it."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except OSError:
        pass


def serve(listening: socket.socket, way: Way, held: int) -> None:
    """Until the first process is gone, which is when `held` can be read: the next one needs the port."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    threading.stack_size(_STACK_BYTES)
    room, requests = threading.BoundedSemaphore(CONNECTIONS), Held()
    poll = select.poll()
    poll.register(listening, select.POLLIN)
    poll.register(held, select.POLLIN)
    while True:
        if any(fd == held for fd, _ in poll.poll()):
            return
        try:
            sock, _ = listening.accept()
        except OSError:
            time.sleep(_AGAIN_SECONDS)  # no descriptors, or no memory, at the moment
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not room.acquire(blocking=False):
            _turned_away(sock)
            continue
        threading.Thread(target=_serve_one, args=(sock, way, requests, room), daemon=True).start()


def _turned_away(sock: socket.socket) -> None:
    with sock:
        sock.setblocking(False)
        try:
            sock.send(refusal(503, f"{CONNECTIONS} connections are open. Nothing was sent."))
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def _serve_one(sock: socket.socket, way: Way, requests: Held, room: threading.BoundedSemaphore) -> None:
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
        room.release()


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
