"""A broker that hangs, is gone, is full or was restarted: requests go on, and wait for it once at most."""

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from celery import current_app
from kombu.connection import Connection
from kombu.pools import reset

from keepstate_site.beat import Scheduler
from keepstate_site.settings.queue import broker_url
from sessions_app.services import dispatch, silence
from sessions_app.services.silence import Silence
from tests.support.redis_server import RedisServer, own_redis
from tests.support.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE = dispatch.CONTROL_QUEUE


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with own_redis() as running:
        yield running


@pytest.fixture(autouse=True)
def broker(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has not met this broker before."""

    def connection_for_write(url: str | None = None, transport_options: dict[str, object] | None = None) -> Connection:
        return Connection(broker_url(server.url), transport_options=transport_options)

    monkeypatch.setattr(current_app._get_current_object(), "connection_for_write", connection_for_write)
    monkeypatch.setattr(dispatch, "_silence", Silence("none"))
    monkeypatch.setattr(silence, "SILENT_SECONDS", 3600.0)  # however long a test takes, what it has begun lasts
    yield
    reset()


def ring() -> None:
    dispatch._send(dispatch.SWEEP, QUEUE)


def attempts(log: pytest.LogCaptureFixture) -> int:
    return sum("doorbell not rung" in record.getMessage() for record in log.records)


def test_of_many_requests_one_waits_for_a_broker_that_hangs(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    ring()
    before = len(server.messages(QUEUE))
    server.pause()
    try:
        with caplog.at_level(logging.WARNING):
            for _ in range(20):
                ring()
            assert not dispatch.answers()
    finally:
        server.go_on()
    assert (before, attempts(caplog)) == (1, 1)


def test_when_its_time_is_over_one_of_many_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    met = Silence("none")
    met.begin(OSError())
    assert met.lasts()
    with monkeypatch.context() as short:
        short.setattr(silence, "SILENT_SECONDS", 0.0)
        met.begin(OSError())
    assert sorted(at_once(8, lambda _: met.lasts())) == [False] + [True] * 7
    met.end()
    assert not met.lasts()


def test_a_broker_that_was_restarted_is_rung_at_once(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    ring()
    server.stop()
    server.start()
    with caplog.at_level(logging.WARNING):
        ring()
    assert (len(server.messages(QUEUE)), attempts(caplog)) == (1, 0)


@pytest.mark.parametrize("fault", ["stop", "fill"])
def test_one_that_is_gone_or_full_loses_the_doorbell_and_nothing_else(
    server: RedisServer, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    getattr(server, fault)()
    with caplog.at_level(logging.WARNING):
        ring()
        ring()
    assert attempts(caplog) == 1


def test_beat_neither_waits_for_a_broker_that_hangs_nor_fills_one_that_nobody_reads(
    server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    beat = Scheduler(current_app._get_current_object(), schedule_filename=str(tmp_path / "schedule"))
    assert set(beat.schedule) == set(current_app.conf.beat_schedule), "Celery adds no turn of its own"
    entries = [beat.schedule[name] for name in ("sweep", "record")]

    def tick() -> None:
        for entry in entries:
            beat.apply_entry(entry, producer=beat.producer)

    server.pause()
    try:
        with caplog.at_level(logging.WARNING):
            tick()
    finally:
        server.go_on()
    assert attempts(caplog) == 1
    dispatch._silence.end()
    for _ in range(dispatch.UNREAD_DOORBELLS + 5):
        tick()
    waiting = server.messages(QUEUE)
    assert Counter(one["headers"]["task"] for one in waiting) == {dispatch.SWEEP: 10, dispatch.RECORD: dispatch.UNREAD_DOORBELLS + 5}
    assert all(one["headers"]["expires"] for one in waiting)
    beat.close()


def test_a_beat_that_was_away_for_an_hour_sends_each_turn_once(server: RedisServer, tmp_path: Path) -> None:
    file = str(tmp_path / "schedule")
    before = Scheduler(current_app._get_current_object(), schedule_filename=file)
    for entry in before.schedule.values():
        entry.last_run_at -= timedelta(hours=1)
    before.close()
    back = Scheduler(current_app._get_current_object(), schedule_filename=file)
    while back.tick() == 0:
        pass
    every_hour = {entry.task for entry in back.schedule.values() if entry.schedule.seconds <= 3600}
    back.close()
    sent = Counter(one["headers"]["task"] for one in server.messages(QUEUE))
    assert sent == dict.fromkeys(every_hour, 1)
    assert dispatch.RECORD in sent
