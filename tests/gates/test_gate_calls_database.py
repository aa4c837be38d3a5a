"""Gate calls: connections of the gateway to its database cut at any step of a call. The caller gets all of one call, or hears that nothing
was sent and asks again; nothing is paid for twice, and no call stays in flight.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from django.db import connection

from gateway_app.proxy import call_rows, delivery_rows, pump, rows
from gateway_app.proxy.pool import NAME
from gateway_app.proxy.pump import Pump
from gateway_app.states import CallState
from tests.gates.gateway.scene import END, Scene, asked, bills, calls, run
from tests.support.fixtures import doorbells, owner
from tests.support.fleet import Tenant

__all__ = ["doorbells", "owner"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]

_CUT = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"


def cut() -> None:
    """Every connection of the gateway, as the database ends them when it is restarted. Returns when they are gone."""
    settings = connection.get_connection_params()
    with psycopg.connect(**{name: settings[name] for name in ("dbname", "user", "host", "port", "password") if name in settings}) as own:
        ended = own.execute(_CUT, [NAME]).fetchall()
    assert ended, "there were connections to cut"


#: By step: the statement of the data path, and whether it is before or after it, or after it in such a way that its commit is not told.
STATEMENTS = {
    "before_the_row": (call_rows, "open_call", "before"),
    "row_committed": (call_rows, "open_call", "after"),
    "before_the_end": (call_rows, "end_call", "before"),
    "end_committed": (call_rows, "end_call", "after"),
    "end_not_told": (call_rows, "end_call", "untold"),
    "before_the_window": (rows, "take_from_window", "before"),
    "taken_from_window": (rows, "take_from_window", "after"),
    "replay_in_ledger": (rows, "served_again", "after"),
}
OF_A_REPLAY = ("before_the_window", "taken_from_window", "replay_in_ledger")
#: So often the providers' clients ask when they are told to: once and two times more.
ATTEMPTS = 3


def cut_at(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first call of it, and no other."""
    module, name, when = STATEMENTS[step]
    sound: Callable[..., Awaitable[Any]] = getattr(module, name)

    async def at_a_bad_moment(*arguments: Any) -> Any:
        monkeypatch.setattr(module, name, sound)
        found = None if when == "before" else await sound(*arguments)
        cut()
        if when == "untold":
            raise psycopg.OperationalError
        return await sound(*arguments) if when == "before" else found

    monkeypatch.setattr(module, name, at_a_bad_moment)


async def answered(scene: Scene, url: str) -> tuple[int, Any]:
    """As a client asks: again while it is told to, or while its connection breaks. How often it asked, and the answer."""
    for attempt in range(1, ATTEMPTS + 1):
        got = await asked(scene.at, url)
        if got.status == 200 and got.whole:
            return attempt, got
        assert got.status in (0, 200, 503)
        if got.status == 503:
            assert (got.headers["x-should-retry"], got.json["error"]["code"]) == ("true", "ks_unavailable")
    raise AssertionError("the client had no answer")


async def prove_cut(scene: Scene, step: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    url, recorded = scene.at.url, step in OF_A_REPLAY
    if recorded:
        tick = await scene.tick()
        first = await asked(scene.at, url)
        assert first.whole
        await scene.goes_on(tick)
        url = await scene.at.moved(epoch=2)
    cut_at(step, monkeypatch)
    attempts, got = await answered(scene, url)
    assert END in got.body
    assert not recorded or got.body == first.body, "the retry gets the recorded answer"
    assert scene.at.bill["calls"] == 1, "the call was paid for twice"
    assert await calls() == [(CallState.COMPLETE, 12)], "one call, recorded whole"
    assert await bills() == [12], "one line of the bill"
    return {"step": step, "attempts": attempts, "provider_calls": 1}


@pytest.mark.gate(
    "calls", "The gateway's connections to the database cut at any step of a call: its caller has it all, and it is paid for once"
)
@pytest.mark.parametrize("step", STATEMENTS)
def test_connections_to_the_database_cut(owner: Tenant, step: str, monkeypatch: pytest.MonkeyPatch, evidence: dict[str, Any]) -> None:
    async def act(scene: Scene) -> None:
        evidence.update(await prove_cut(scene, step, monkeypatch))

    run(owner.account, act)


@pytest.mark.gate("calls", "The gateway's connections to the database cut in the middle of a stream: nobody sees it")
def test_connections_to_the_database_cut_in_the_middle_of_a_stream(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch, evidence: dict[str, Any]
) -> None:
    sound = Pump._add

    def cut_before(pump: Pump, piece: bytes, *, release: bool) -> None:
        monkeypatch.setattr(Pump, "_add", sound)
        cut()
        sound(pump, piece, release=release)

    async def act(scene: Scene) -> None:
        monkeypatch.setattr(Pump, "_add", cut_before)
        got = await asked(scene.at, scene.at.url)
        assert (got.status, got.whole, await calls()) == (200, True, [(CallState.COMPLETE, 12)])
        evidence.update(provider_calls=scene.at.bill["calls"])

    run(owner.account, act)


def test_the_gate_fails_when_what_a_broken_connection_took_from_the_window_stays_taken(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(*_: Any) -> None:
        return None

    monkeypatch.setattr(delivery_rows, "undelivered", nobody)
    with pytest.raises(AssertionError, match="recorded answer"):
        run(owner.account, lambda scene: prove_cut(scene, "taken_from_window", monkeypatch))


def test_the_gate_fails_when_the_end_of_a_call_is_written_once_and_not_again(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "WRITE_SECONDS", -1.0)
    with pytest.raises(AssertionError, match="paid for twice"):
        run(owner.account, lambda scene: prove_cut(scene, "before_the_end", monkeypatch))
