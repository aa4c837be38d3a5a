"""A request's body: in memory alone, unpacked, bounded in size and in how long it may keep silent."""

import asyncio
import zlib

from aiohttp import web

from gateway_app.proxy import refusals

#: As it comes, and after it was unpacked.
BODY_BYTES = 64 * 1024 * 1024
#: A machine that is saved stands still for far less.
SILENT_SECONDS = 60.0
_UNPACKED_AT_ONCE = 1 << 18


async def read(request: web.BaseRequest, encoding: str) -> bytes:
    """`encoding`: of the body, in lower case. Raises Refusal."""
    if encoding not in ("", "identity", "gzip"):
        raise refusals.unreadable("The body's encoding is neither gzip nor none.")
    if (request.content_length or 0) > BODY_BYTES:
        raise refusals.too_large(BODY_BYTES)
    try:
        return await (_unpacked(request) if encoding == "gzip" else _plain(request))
    except TimeoutError:
        raise refusals.slow(SILENT_SECONDS) from None
    except zlib.error:
        raise refusals.unreadable("The body is no gzip.") from None


async def _plain(request: web.BaseRequest) -> bytes:
    taken = bytearray()
    clock = asyncio.get_running_loop().time
    async with asyncio.timeout(SILENT_SECONDS) as limit:
        async for piece in request.content.iter_any():
            limit.reschedule(clock() + SILENT_SECONDS)
            taken += piece
            if len(taken) > BODY_BYTES:
                raise refusals.too_large(BODY_BYTES)
    return bytes(taken)


async def _unpacked(request: web.BaseRequest) -> bytes:
    """Others are served between its pieces, for a small one may be a large one unpacked."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    taken, came = bytearray(), 0
    clock = asyncio.get_running_loop().time
    async with asyncio.timeout(SILENT_SECONDS) as limit:
        async for packed in request.content.iter_any():
            limit.reschedule(clock() + SILENT_SECONDS)
            came, left = came + len(packed), packed
            while left:
                taken += unpacker.decompress(left, _UNPACKED_AT_ONCE)
                left = unpacker.unconsumed_tail
                if max(came, len(taken)) > BODY_BYTES:
                    raise refusals.too_large(BODY_BYTES)
                if unpacker.unused_data:
                    raise refusals.unreadable("The body goes on behind the end of its gzip.")
                await asyncio.sleep(0)
    while not unpacker.eof:  # what was held back may be the end
        rest = unpacker.decompress(b"", _UNPACKED_AT_ONCE)
        if not rest:
            raise refusals.unreadable("The body's gzip is cut short.")
        taken += rest
        if len(taken) > BODY_BYTES:
            raise refusals.too_large(BODY_BYTES)
    return bytes(taken)
