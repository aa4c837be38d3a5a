"""A host's relay for web processes on other machines: TLS on a network address, in front of the relay's own unix socket.

It runs in the io worker, where KEEPSTATE_RELAY_LISTEN names an address. Whoever connects is passed on to the unix socket once he has shown
that he knows the master key (workers/relay/proof.py), and is dropped without a word else.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.relay import proof
from workers.relay.address import WAITING
from workers.relay.admission import Admission

log = logging.getLogger(__name__)

RETRY_SECONDS = 2.0


@dataclass(frozen=True)
class Door:
    """`tell` is called with (port, fingerprint) once it listens: from then on it may be found."""

    directory: Path  # the host's own
    host: str
    port: int  # 0: any free one
    masters: Sequence[bytes]
    tell: Callable[[int, str], None]

    def start(self) -> None:
        """From a thread of this process, for as long as it lives."""
        threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True, name="relay-door").start()

    async def serve(self) -> None:
        """Another io worker of the host may still have the address: it is tried again until it is free."""
        while True:
            try:
                await self._listen()
            except Exception:
                log.warning("the relay does not listen on its network address, and tries again", exc_info=True)
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        context, print_ = proof.host_side(self.directory)
        admission = Admission(self.directory, context, print_, self.masters)
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        with socket.create_server((self.host, self.port), family=family, backlog=WAITING) as listener:
            listener.setblocking(False)
            port = listener.getsockname()[1]
            await asyncio.to_thread(self.tell, port, print_)
            log.info("relay listens on the network", extra={"port": port})
            while True:
                await _take_next(listener, admission)
                await asyncio.sleep(0)  # who comes fast must not keep those who are here from their turn


async def _take_next(listener: socket.socket, admission: Admission) -> None:
    try:
        sock, address = await asyncio.get_running_loop().sock_accept(listener)
    except ConnectionError:  # it has gone again
        return
    except OSError:  # no descriptor is free for it
        log.warning("a connection could not be taken", exc_info=True)
        await asyncio.sleep(RETRY_SECONDS)
        return
    admission.take(sock, address[0])
