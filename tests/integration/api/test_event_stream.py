"""GET /api/v2/sessions/<id>/events/stream through the ASGI application: what was, then what is, in order, each once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from django.db import transaction

from keepstate_site.events import feed, hub, stream
from sessions_app.models import Session, SessionEvent
from sessions_app.services import event, following
from sessions_app.services import session as sessions
from sessions_app.services import token as tokens
from sessions_app.states import SessionState
from tests.support.api import Caller, error_of
from tests.support.event_streams import SECONDS, in_database, opened
from tests.support.fleet import Tenant, session_row

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes has been heard, unless a test looks itself."""
    monkeypatch.setattr(hub, "LOOK_SECONDS", 3600)


def _append(session: Session, count: int = 1) -> None:
    for _ in range(count):
        with transaction.atomic():
            event.append(session.id, "test.step", {"text": "line\nbreak"}, source="test")


def _path(session: Session) -> str:
    return f"/api/v2/sessions/{session.short_id}/events/stream"


def _run(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await test()
        assert not hub.hub.feeds, "who left is forgotten"
        assert not hub.hub._tasks, "nothing is done for nobody"

    asyncio.run(whole())


def test_what_was_comes_first_then_what_happens_as_the_page_has_it(owner: Tenant, api: Caller) -> None:
    session = session_row(owner.account, epoch=3)
    _append(session, 2)

    async def test() -> None:
        async with opened(_path(session), owner.plain) as one:
            assert (one.status, one.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            assert "x-keepstate-stream" not in one.headers
            assert await one.next() == ("hello", {"epoch": 3}, None)
            first = [await one.next() for _ in range(2)]
            await in_database(lambda: _append(session))
            rows = (await in_database(lambda: api("GET", f"/api/v2/sessions/{session.id}/events"))).json()["data"]["items"]
            assert [*first, await one.next()] == [("event", row, str(row["stream_seq"])) for row in rows]

    _run(test)


def test_it_goes_on_after_the_last_number_seen_as_the_query_or_a_browser_tells_it(owner: Tenant) -> None:
    session = session_row(owner.account)
    _append(session, 4)

    async def test() -> None:
        for query, headers in (("?after_seq=2", {}), ("?after_seq=1", {"last_event_id": "2"})):
            async with opened(_path(session) + query, owner.plain, headers=headers) as one:
                assert (await one.next())[0] == "hello"
                assert await one.numbers(2) == [3, 4]

    _run(test)


def test_followers_far_behind_and_a_burst_beyond_what_is_kept_miss_nothing(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "BATCH", 4)
    monkeypatch.setattr(feed, "FRAMES", 3)
    session = session_row(owner.account)
    _append(session, 9)

    async def test() -> None:
        async with opened(_path(session), owner.plain) as one, opened(_path(session) + "?after_seq=9", owner.plain) as other:
            assert (await one.next())[0] == (await other.next())[0] == "hello"
            await in_database(lambda: _append(session, 11))
            assert await one.numbers(20) == list(range(1, 21))
            assert await other.numbers(11) == list(range(10, 21))

    _run(test)


def test_a_deleted_sessions_stream_ends_after_its_last_line(owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.DELETING)

    def delete() -> None:
        with transaction.atomic():
            sessions.move(session, [SessionState.DELETING], SessionState.DELETED, source="test", type_="session.deleted")

    async def test() -> None:
        async with opened(_path(session), owner.plain) as one:
            await one.next()
            await in_database(delete)
            assert (await one.next())[1]["payload"]["type"] == "session.deleted"
            assert await one.next() == ("end", {"reason": "session_deleted"}, None)

    _run(test)


def test_a_revoked_tokens_stream_ends_and_anothers_goes_on(owner: Tenant) -> None:
    session = session_row(owner.account)
    token, plain = tokens.issue(owner.account, "other")

    async def test() -> None:
        async with opened(_path(session), plain) as one, opened(_path(session), owner.plain) as other:
            await one.next(), await other.next()
            await in_database(lambda: tokens.revoke(token))
            await hub.hub.look_once()
            assert await one.next() == ("end", {"reason": "token_ended"}, None)
            await in_database(lambda: _append(session))
            assert await other.numbers(1) == [1]

    _run(test)


def test_what_was_not_heard_is_found_by_the_next_look(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event, "CHANNEL", "nobody_listens")
    session = session_row(owner.account)

    async def test() -> None:
        async with opened(_path(session), owner.plain) as one:
            await one.next()
            await in_database(lambda: _append(session))
            await hub.hub.look_once()
            assert await one.numbers(1) == [1]

    _run(test)


@pytest.mark.parametrize(("bound", "status", "code"), [("ACCOUNT_STREAMS", 429, "ks_too_many_streams"), ("STREAMS", 503, "ks_unavailable")])
def test_one_stream_too_many_is_refused_by_name_before_it_begins(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch, bound: str, status: int, code: str
) -> None:
    monkeypatch.setattr(hub, bound, 1)
    session = session_row(owner.account)

    async def test() -> None:
        async with opened(_path(session), owner.plain) as one:
            await one.next()
            async with opened(_path(session), owner.plain) as other:
                assert (other.status, (await other.body())["error"]["code"]) == (status, code)
                assert int(other.headers["retry-after"]) > 0

    _run(test)


def test_a_client_that_takes_nothing_is_let_go(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SLOW_SECONDS", 0.01)
    session = session_row(owner.account)

    async def test() -> None:
        async with opened(_path(session), owner.plain, block=asyncio.Event()) as one:
            await asyncio.wait_for(one.served, SECONDS)
            assert one.pieces.empty()

    _run(test)


def test_streams_end_by_name_when_the_server_stops(owner: Tenant) -> None:
    session = session_row(owner.account)

    async def test() -> None:
        async with opened(_path(session), owner.plain) as one:
            await one.next()
            hub.hub.end_all("server_stops")
            assert await one.next() == ("end", {"reason": "server_stops"}, None)

    _run(test)


def test_a_refusal_is_typed_and_of_the_v2_shape(owner: Tenant) -> None:
    async def test() -> None:
        async with opened("/api/v2/sessions/" + "0" * 32 + "/events/stream", owner.plain) as one:
            assert (one.status, (await one.body())["error"]["code"]) == (404, "ks_not_found")

    _run(test)
    assert error_of(Caller(None)("GET", "/api/v2/sessions/abcd/events/stream"))["code"] == "ks_unauthenticated"
    assert not SessionEvent.objects.exists()
