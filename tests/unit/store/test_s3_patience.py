"""How long a server that refuses at once is asked again, on a clock that only the pauses move."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from botocore.exceptions import EndpointConnectionError

from checkpoints_app.store import UnavailableError
from checkpoints_app.store.backends.s3 import BRIEF, Patience
from checkpoints_app.store.backends.s3.retry import attempt


@dataclass
class Clock:
    now: float = 0.0

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


def away_until(seconds: float, clock: Clock) -> Callable[[], str]:
    def ask() -> str:
        if clock.now < seconds:
            raise EndpointConnectionError(endpoint_url="http://store")
        return "stored"

    return ask


def test_work_outlasts_a_store_that_is_away_for_a_minute(clock: Clock) -> None:
    assert attempt(replace(Patience(), wait=clock.wait), "key", away_until(60, clock)) == "stored"
    assert clock.now < 66, "it is asked often enough to be found soon"


def test_no_patience_outlasts_a_store_that_stays_away(clock: Clock) -> None:
    with pytest.raises(UnavailableError, match="retry later"):
        attempt(replace(Patience(), wait=clock.wait), "key", away_until(10_000, clock))
    assert 80 < clock.now <= 90


def test_where_others_wait_it_is_short(clock: Clock) -> None:
    with pytest.raises(UnavailableError):
        attempt(replace(BRIEF, wait=clock.wait), "key", away_until(60, clock))
    assert clock.now <= 15
