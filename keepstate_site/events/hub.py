"""All open event streams of this process. It costs nothing while there is none.

A notification makes one read of that session, whoever many follow it; a look at all of them every few seconds makes up for what was not
heard, and finds sessions that are gone and tokens that have ended. Reads are made by a few threads, and no connection is held between them.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from django.db import close_old_connections

from keepstate_site.events import frames
from keepstate_site.events.feed import Feed, Follower
from keepstate_site.events.listener import listen
from sessions_app.errors import ServiceError, TooManyStreams, Unavailable
from sessions_app.services import following, history

log = logging.getLogger(__name__)

#: Streams of one process, and of one account in it.
STREAMS = 1000
ACCOUNT_STREAMS = 50
#: How long what was not heard goes unnoticed at most, and how long an ended token keeps its streams.
LOOK_SECONDS = 10.0
P = ParamSpec("P")
T = TypeVar("T")
_threads = ThreadPoolExecutor(4, thread_name_prefix="events")


async def in_thread(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads, _done, partial(work, *arguments, **options))


def _done(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        close_old_connections()  # as Django does after a request


class Hub:
    def __init__(self) -> None:
        self.feeds: dict[str, Feed] = {}
        self._accounts: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, session_id: str, last: int, follower: Follower) -> Feed:
        """Raises TooManyStreams or Unavailable. Whoever joined must leave."""
        if (full := self._full(follower.account_id)) is not None:
            raise full
        feed = self.feeds.setdefault(session_id, Feed(session_id, last))
        feed.followers.add(follower)
        self._accounts[follower.account_id] += 1
        if not self._tasks:
            self._spawn(listen(self._look_at_all, self._heard))
            self._spawn(self._look())
        self._heard(session_id)  # what was appended since the request was judged
        return feed

    def leave(self, feed: Feed, follower: Follower) -> None:
        feed.followers.discard(follower)
        self._accounts[follower.account_id] -= 1
        if not self._accounts[follower.account_id]:
            del self._accounts[follower.account_id]
        if not feed.followers and self.feeds.get(feed.session_id) is feed:
            del self.feeds[feed.session_id]
        if not self.feeds:
            for task in self._tasks:
                task.cancel()
            self._tasks = set()

    def end_all(self, reason: str) -> None:
        for feed in self.feeds.values():
            for follower in feed.followers:
                follower.end(reason)

    def _full(self, account_id: str) -> ServiceError | None:
        if self._accounts[account_id] >= ACCOUNT_STREAMS:
            return TooManyStreams(
                f"The account follows {ACCOUNT_STREAMS} streams already. None was opened.",
                next_action="Close one, or read pages of events.",
            )
        if self._accounts.total() >= STREAMS:
            return Unavailable("This process has as many streams open as it takes. None was opened.", next_action="Read pages of events.")
        return None

    def _heard(self, session_id: str) -> None:
        feed = self.feeds.get(session_id)
        if feed is None:
            return
        feed.dirty = True
        if not feed.reading:
            feed.reading = True
            self._spawn(self._read(feed))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, feed: Feed) -> None:
        """Until nothing was told during a read. One at a time for each session."""
        try:
            while feed.dirty:
                feed.dirty = False
                found, head = await in_thread(_news, feed.session_id, feed.last)
                if len(found) >= following.BATCH:
                    feed.skip_to(head.last)
                else:
                    feed.add(found)
                if head.deleted:
                    _end(feed, "session_deleted")
        except Exception as error:  # the database is away: the next look tries again
            log.warning("a session's news could not be read", extra={"session_id": feed.session_id, "reason": repr(error)[:200]})
        finally:
            feed.reading = False

    def _look_at_all(self) -> None:
        for session_id in list(self.feeds):
            self._heard(session_id)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look_once()
            except Exception as error:
                log.warning("followed sessions could not be looked at", extra={"reason": repr(error)[:200]})

    async def look_once(self) -> None:
        """Two queries, however many streams there are."""
        heads = await in_thread(following.heads, list(self.feeds))
        for session_id, head in heads.items():
            feed = self.feeds.get(session_id)
            if feed is not None and (head.last > feed.last or head.deleted):
                self._heard(session_id)
        followers = [follower for feed in self.feeds.values() for follower in feed.followers]
        live = await in_thread(following.live_tokens, {follower.token_id for follower in followers})
        for follower in followers:
            if follower.token_id not in live:
                follower.end("token_ended")


def _end(feed: Feed, reason: str) -> None:
    for follower in feed.followers:
        follower.end(reason)


def _news(session_id: str, last: int) -> tuple[list[tuple[int, bytes]], following.Head]:
    """The head is read first: events that it counts are there to be read, unless they have been erased."""
    head = following.heads([session_id])[session_id]
    return lines_after(session_id, last), head


def lines_after(session_id: str, position: int) -> list[tuple[int, bytes]]:
    rows = following.after(session_id, position)
    left = history.left_by_restores(session_id, after=position) if rows else []
    return [(row.number, frames.line(row, left)) for row in rows]


hub = Hub()
