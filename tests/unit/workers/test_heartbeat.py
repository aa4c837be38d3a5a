"""A host is heard of by the database alone, and one installation runs under its id."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from tests.support.stopped import standing_still
from tests.support.waiting import until
from workers.host.claim import HostRefused, claim, mine
from workers.host.heartbeat import Heartbeat
from workers.host.identity import host_id, instance
from workers.host.liveness import alive, silent_after
from workers.models import Host

pytestmark = pytest.mark.django_db(transaction=True)
#: Of this database alone: other tests have heartbeats on the same server.
_CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'keepstate-heartbeat'
"""
FACTS: dict[str, Any] = {"memory_bytes": 1 << 30, "cpus": 2, "boot_id": "boot"}


@pytest.fixture
def here(host: Path) -> Host:
    return claim(**FACTS)


@pytest.fixture
def ended() -> list[str]:
    return []


@pytest.fixture
def heartbeat(here: Host, ended: list[str]) -> Iterator[Heartbeat]:
    made = Heartbeat(lambda: ended.append("ended"))
    yield made
    if made._thread.is_alive():
        made.stop()
    made._close()


def silence(by: timedelta | None = None) -> None:
    Host.objects.update(heartbeat_at=F("heartbeat_at") - (by or silent_after() + timedelta(seconds=1)))


def replaced() -> None:
    Host.objects.update(instance="another")


def test_a_beat_is_heard(heartbeat: Heartbeat) -> None:
    silence()
    heartbeat.beat()
    assert alive().exists()


def test_it_beats_by_itself_and_connects_anew_when_the_database_cut_it_off(heartbeat: Heartbeat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.host.heartbeat.BEAT_SECONDS", 0.05)
    heartbeat.start()
    until(lambda: heartbeat._own, 10, "the heartbeat has a connection")
    with connection.cursor() as cursor:
        cursor.execute(_CUT)
    silence()
    until(alive().exists, 10, "the host is heard of again")


@pytest.mark.timeout(30)
def test_a_database_that_stands_still_is_left_and_asked_anew(heartbeat: Heartbeat, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as hasty:
        hasty.setattr("workers.host.heartbeat.ANSWER_SECONDS", 0.2)
        heartbeat._connected()
    silence()
    assert heartbeat._own is not None
    with standing_still(heartbeat._own.info.backend_pid):
        heartbeat.beat()
        assert not alive().exists()
        heartbeat.beat()
    assert alive().exists()


def test_what_the_host_left_in_its_directory_is_the_same_installation_after_a_reboot(here: Host) -> None:
    silence()
    again = claim(**{**FACTS, "boot_id": "another boot"})
    assert (again.boot_id, again.instance) == ("another boot", instance())


def test_a_second_installation_under_the_id_is_refused_while_the_first_is_heard_of(here: Host) -> None:
    replaced()
    with pytest.raises(HostRefused, match=f"Another installation runs as the host {host_id()}"):
        claim(**{**FACTS, "cpus": 64})
    assert Host.objects.get().cpus == FACTS["cpus"]


def test_it_is_welcome_once_the_first_is_silent_and_not_expected_back(here: Host) -> None:
    replaced()
    silence()
    Host.objects.update(resting_until=Now() + timedelta(minutes=1))
    with pytest.raises(HostRefused):
        claim(**FACTS)
    Host.objects.update(resting_until=Now() - timedelta(seconds=1))
    assert claim(**FACTS).instance == instance()


def test_an_installation_that_was_replaced_ends_and_says_why(
    heartbeat: Heartbeat, ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.host.heartbeat.BEAT_SECONDS", 0.05)
    replaced()
    heartbeat.start()
    until(lambda: ended, 10, "the worker was told to end")
    assert "Another installation runs as the host" in heartbeat.refused
    assert not mine().exists()


def test_a_retired_host_is_told_so_and_its_beats_are_not_taken(heartbeat: Heartbeat) -> None:
    silence()
    Host.objects.update(retired_at=Now())
    heartbeat.beat()
    assert "was retired" in heartbeat.refused
    with pytest.raises(HostRefused, match="host enrol"):
        claim(**FACTS)
    Host.objects.update(retired_at=None)
    assert not alive().exists()


def test_workers_that_were_stopped_in_order_say_when_they_are_expected_back(heartbeat: Heartbeat) -> None:
    heartbeat.start()
    heartbeat.leave()
    heartbeat.stop()
    assert Host.objects.filter(resting_until__gt=Now() + timedelta(minutes=4)).exists()


def test_a_worker_of_the_host_that_stays_takes_the_goodbye_back(heartbeat: Heartbeat) -> None:
    Host.objects.update(resting_until=Now() + timedelta(minutes=5))
    heartbeat.beat()
    assert Host.objects.get().resting_until is None


def test_a_start_ends_the_rest_and_the_loss(here: Host) -> None:
    Host.objects.update(resting_until=Now() + timedelta(minutes=5), lost_at=Now())
    again = claim(**FACTS)
    assert (again.resting_until, again.lost_at) == (None, None)
