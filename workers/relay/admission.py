"""The way of one connection from a relay's door to the relay itself: TLS, the proof of the master key, a place.

Those who have shown nothing yet are bounded in number and time (workers/relay/strangers.py), and take no place of those who have.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from workers.relay import proof, pump
from workers.relay.address import SOCKET_NAME
from workers.relay.seldom import Seldom
from workers.relay.strangers import Strangers

log = logging.getLogger(__name__)

#: In a handshake, or silent after it.
STRANGERS = 128
#: Of those who have shown the key; the relay itself serves fewer (workers/relay/server.py), and tells the others that it is busy.
CONNECTIONS = 128
#: Handshake and proof together.
PROOF_SECONDS = 5.0
#: So long the last bytes may take to an end that hardly reads. The place is kept until then.
LAST_SECONDS = 30.0


class Admission:
    """To the relay below `directory`, under the certificate of `context`, for whoever shows one of the master keys."""

    def __init__(self, directory: Path, context: ssl.SSLContext, print_: str, masters: Sequence[bytes]):
        self._directory, self._context, self._print, self._masters = directory, context, print_, masters
        self._strangers = Strangers(STRANGERS)
        self._places = asyncio.Semaphore(CONNECTIONS)
        self._visits: set[asyncio.Task[None]] = set()
        self._crowded = Seldom(log, "more connections than can be waited for show nothing: the longest silent are sent away")
        self._keyless = Seldom(log, "somebody without the fleet's master key asked for this host's machines")

    def take(self, sock: socket.socket, address: str) -> None:
        """Begin with a connection that has just come; it is this object's from now on."""
        trial = asyncio.create_task(self._proven(sock, address))
        if self._strangers.come(trial, address):
            self._crowded.happened(address)
        visit = asyncio.create_task(self._visit(trial))
        self._visits.add(visit)
        visit.add_done_callback(self._visits.discard)

    async def _visit(self, trial: "asyncio.Task[pump.Stream | None]") -> None:
        try:
            far = await trial
        except asyncio.CancelledError:  # sent away
            return
        if far is None:
            return
        if self._places.locked():
            far[1].transport.abort()
            return
        async with self._places:
            with suppress(OSError):
                await self._pass_on(far)

    async def _proven(self, sock: socket.socket, address: str) -> pump.Stream | None:
        """The connection with a peer that has the key; None: it is closed, for he has not shown it, or has gone."""
        try:
            async with asyncio.timeout(PROOF_SECONDS):
                far = await self._secured(sock)
                return far if await self._has_shown_the_key(far, address) else None
        except (OSError, asyncio.IncompleteReadError):  # TimeoutError is one
            return None

    async def _secured(self, sock: socket.socket) -> pump.Stream:
        """Raises OSError. Whatever ends it closes the socket."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=pump.PIECE_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, sock, ssl=self._context, ssl_handshake_timeout=PROOF_SECONDS, ssl_shutdown_timeout=LAST_SECONDS
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _has_shown_the_key(self, far: pump.Stream, address: str) -> bool:
        try:
            shown = await far[0].readexactly(proof.PROOF_BYTES)
        except BaseException:
            far[1].transport.abort()  # a farewell would be waited for
            raise
        if proof.is_proof(shown, self._masters, self._print):
            return True
        self._keyless.happened(address)
        far[1].transport.abort()
        return False

    async def _pass_on(self, far: pump.Stream) -> None:
        try:
            pump.watch(far[1])
            near = await asyncio.open_unix_connection(str(self._directory / SOCKET_NAME))
            await pump.join(far, near)
        finally:
            await pump.close(far[1])
            await far[1].wait_closed()
