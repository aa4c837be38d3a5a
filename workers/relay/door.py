"""A host's relay for web processes on other machines: TLS on a network address, in front of the relay's own unix socket.

It runs in the io worker, where KEEPSTATE_RELAY_LISTEN names an address. Whoever connects is passed on to the unix socket once he has shown
that he knows the master key (workers/relay/proof.py), and is dropped without a word else.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workers.relay import proof, pump
from workers.relay.address import SOCKET_NAME

log = logging.getLogger(__name__)

#: Of all kinds, those that have shown nothing yet too; the relay itself serves fewer.
CONNECTIONS = 128
PROOF_SECONDS = 5.0
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
        places = asyncio.Semaphore(CONNECTIONS)

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if places.locked():
                await pump.close(writer)
                return
            async with places:
                with suppress(OSError):
                    await self._admit((reader, writer), print_)

        server = await asyncio.start_server(
            take, self.host, self.port, ssl=context, ssl_handshake_timeout=PROOF_SECONDS, family=socket.AF_UNSPEC
        )
        async with server:
            port = server.sockets[0].getsockname()[1]
            await asyncio.to_thread(self.tell, port, print_)
            log.info("relay listens on the network", extra={"port": port})
            await server.serve_forever()

    async def _admit(self, far: pump.Stream, print_: str) -> None:
        pump.watch(far[1])
        try:
            shown = await asyncio.wait_for(far[0].readexactly(proof.PROOF_BYTES), PROOF_SECONDS)
            if not proof.is_proof(shown, self.masters, print_):
                log.warning("somebody without the fleet's master key asked for this host's machines", extra={"peer": _peer(far)})
                return
            near = await asyncio.open_unix_connection(str(self.directory / SOCKET_NAME))
        except (TimeoutError, asyncio.IncompleteReadError):
            return
        else:
            await pump.join(far, near)
        finally:
            await pump.close(far[1])


def _peer(stream: pump.Stream) -> str:
    return str(stream[1].get_extra_info("peername", ("unknown",))[0])
