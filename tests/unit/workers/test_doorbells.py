"""Doorbells of a host that does not answer: a few, and no more."""

from collections.abc import Iterator

import pytest
from kombu.connection import Connection
from kombu.pools import reset

from sessions_app.services import dispatch
from sessions_app.services.dispatch import UNREAD_DOORBELLS, io_queue, ring_host
from sessions_app.services.silence import Silence


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """Kombu's own broker in memory."""
    with Connection("memory://doorbells") as made:
        monkeypatch.setattr(dispatch, "_broker", lambda: made)
        monkeypatch.setattr(dispatch, "_silence", Silence("none"))
        yield made
    reset()


def unread(broker: Connection, host: str) -> int:
    return int(broker.default_channel.queue_declare(io_queue(host), passive=True).message_count)


def test_a_host_that_does_not_read_is_rung_a_few_times_only(broker: Connection) -> None:
    for _ in range(UNREAD_DOORBELLS + 10):
        ring_host("h-silent")
    assert unread(broker, "h-silent") == UNREAD_DOORBELLS


def test_a_host_that_reads_again_is_rung_again(broker: Connection) -> None:
    for _ in range(UNREAD_DOORBELLS):
        ring_host("h-back")
    broker.default_channel.queue_purge(io_queue("h-back"))
    ring_host("h-back")
    assert unread(broker, "h-back") == 1
