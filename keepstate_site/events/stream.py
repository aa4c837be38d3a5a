"""Event streams beside Django: Django judges the request as any other, and hands an admitted one over by a header of its answer.

So a stream holds a task and a few kilobytes while it waits; Django would keep a thread for it.
"""

import asyncio
import json
import logging
import re
from collections.abc import Iterable
from typing import Any

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, HTTPScope

from keepstate_site.events import frames
from keepstate_site.events.feed import Feed, Follower
from keepstate_site.events.hub import hub, in_thread, lines_after
from sessions_app.api.envelope import Shape, failure
from sessions_app.api.event_stream import HANDOVER
from sessions_app.errors import ServiceError

log = logging.getLogger(__name__)

PATH = re.compile(r"/api/v2/sessions/[^/]+/events/stream")
KEEP_ALIVE_SECONDS = 15.0
#: A client that takes nothing for so long is let go: what waits for it lies in the kernel and the server, bounded.
SLOW_SECONDS = 30.0
_HANDOVER = HANDOVER.lower().encode()
_OWN = frozenset({_HANDOVER, b"content-length"})


async def event_streams(application: ASGI3Application, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Pass the request on; where its answer hands a stream over, send the stream instead."""
    if not PATH.fullmatch(scope["path"]):
        await application(scope, receive, send)
        return
    handed: list[dict[str, Any]] = []

    async def watched(message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start" and _handover(message["headers"]):
            handed.append(dict(message))
        elif not handed:
            await send(message)

    await application(scope, receive, watched)
    if handed:
        await _serve(handed[0], receive, send)


async def _serve(start: dict[str, Any], receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    wanted = json.loads(_handover(start["headers"]))
    start["headers"] = [(name, value) for name, value in start["headers"] if name.lower() not in _OWN]
    follower = Follower(wanted["account"], wanted["token"], wanted["after"])
    try:
        feed = hub.join(wanted["session"], wanted["last"], follower)
    except ServiceError as error:
        await _refuse(start, error, send)
        return
    gone = asyncio.ensure_future(_client_leaves(receive))
    gone.add_done_callback(lambda _: follower.end("client_left"))
    try:
        await send(start)  # type: ignore[arg-type]  # as Django made it
        await _follow(feed, follower, _Sender(send), wanted["epoch"])
    except TimeoutError:
        log.info("a slow reader of events was let go", extra={"session_id": feed.session_id})
    except OSError:
        pass  # the client has gone
    finally:
        gone.cancel()
        hub.leave(feed, follower)


def _handover(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return next((value for name, value in headers if name.lower() == _HANDOVER), b"")


class _Sender:
    def __init__(self, send: ASGISendCallable):
        self._send = send

    async def put(self, data: bytes, *, more: bool = True) -> None:
        """Raises TimeoutError for a client that does not take it."""
        async with asyncio.timeout(SLOW_SECONDS):
            await self._send({"type": "http.response.body", "body": data, "more_body": more})


async def _follow(feed: Feed, follower: Follower, sender: _Sender, epoch: int) -> None:
    await sender.put(frames.hello(epoch))
    while True:
        follower.wake.clear()
        found = feed.frames_after(follower.position)
        if found is None:
            found = await in_thread(lines_after, feed.session_id, follower.position)
            if not found:  # erased since
                follower.position = feed.last
        if found:
            await sender.put(b"".join(frame for _, frame in found))
            follower.position = found[-1][0]
        elif follower.ended is not None:
            await sender.put(frames.end(follower.ended), more=False)
            return
        elif not follower.wake.is_set():
            await _wait(follower, sender)


async def _wait(follower: Follower, sender: _Sender) -> None:
    try:
        async with asyncio.timeout(KEEP_ALIVE_SECONDS):
            await follower.wake.wait()
    except TimeoutError:
        await sender.put(frames.KEEP_ALIVE)


async def _client_leaves(receive: ASGIReceiveCallable) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(start: dict[str, Any], error: ServiceError, send: ASGISendCallable) -> None:
    body = json.dumps(failure(Shape.V2, error.as_dict())).encode()
    kept = [(name, value) for name, value in start["headers"] if name.lower() != b"content-type"]
    headers = [*kept, (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"retry-after", b"5")]
    await send({"type": "http.response.start", "status": error.status, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": body, "more_body": False})
