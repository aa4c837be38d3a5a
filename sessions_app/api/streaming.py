"""An answer whose bytes are made while they are sent, by blocking work in threads: the next are asked for when the last were sent."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

from django.db import close_old_connections
from django.http import StreamingHttpResponse

log = logging.getLogger(__name__)

#: Of their own: a guest that is slow to answer keeps none of the server's other work waiting.
STREAMS = 32
_threads = ThreadPoolExecutor(STREAMS, thread_name_prefix="stream")


def streamed(pieces: Iterator[bytes], *, status: int, media_type: str = "application/octet-stream") -> StreamingHttpResponse:
    """What `pieces` raises ends the connection in the middle: the client has fewer bytes than it was promised, and can see that."""
    return StreamingHttpResponse(_asynchronous(pieces), status=status, content_type=media_type)


def _next(pieces: Iterator[bytes]) -> bytes | None:
    try:
        return next(pieces, None)
    finally:
        close_old_connections()  # as Django does after a request


async def _asynchronous(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    try:
        while (piece := await asyncio.get_running_loop().run_in_executor(_threads, _next, pieces)) is not None:
            yield piece
    except Exception as error:
        log.warning("a streamed answer was cut short", extra={"reason": repr(error)})
        raise
