"""The web process's way to the relay of a host on another machine: a local socket, whose other end a thread of this process joins to TLS.

The sockets that the rest of this process reads and writes stay plain ones: one connection is read and written by two threads at once, which
TLS of Python's allows to nobody.
"""

import asyncio
import hmac
import socket
import threading
from concurrent.futures import TimeoutError as Late
from functools import cache

from workers.relay import proof, pump

CONNECT_SECONDS = 3.0

_joined: set["asyncio.Task[None]"] = set()


def dial(address: tuple[str, int], print_: str, master: bytes) -> socket.socket:
    """A connection to the relay there. Raises OSError: nobody answers in time, or it is not the one with that certificate."""
    mine, other = socket.socketpair()
    asked = asyncio.run_coroutine_threadsafe(_open(address, print_, master, other), _loop())
    try:
        asked.result(CONNECT_SECONDS)
    except BaseException as error:
        asked.cancel()
        mine.close()
        other.close()
        if isinstance(error, Late):
            raise TimeoutError(f"{address[0]}:{address[1]} did not answer within {CONNECT_SECONDS:.0f} s") from error
        raise
    return mine


async def _open(address: tuple[str, int], print_: str, master: bytes, local: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(*address, ssl=proof.web_side(), ssl_handshake_timeout=CONNECT_SECONDS)
    try:
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if not hmac.compare_digest(proof.fingerprint(certificate), print_):
            raise ConnectionError("another process than this host's relay answers there")
        pump.watch(writer)
        writer.write(proof.proof(master, print_))
        await writer.drain()
        local.setblocking(False)
        near = await asyncio.open_unix_connection(sock=local)
    except BaseException:
        writer.close()
        raise
    task = asyncio.create_task(pump.join((reader, writer), near))
    _joined.add(task)
    task.add_done_callback(_joined.discard)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="relay-dial").start()
    return loop
