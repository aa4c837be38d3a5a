"""The keeper of a lease: renews it, and tells the work in time that it must stop. Its time is given by the test."""

import pytest
from django.db import OperationalError, connection

from sessions_app.errors import Cancelled
from sessions_app.services import cancel
from sessions_app.services import lease as leases
from sessions_app.services.lease import Lease, LeaseLost
from workers.operations import keeper as keeping
from workers.operations.keeper import Keeper

LEASE = Lease("op_1", token=7, attempt=1, seconds=30.0)


class Clock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(keeping, "time", made)
    return made


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What each renewal does: None succeeds, an error is raised. The test appends to it; every renewal takes the first."""
    waiting: list[object] = []

    def renew(lease: Lease) -> None:
        assert lease is LEASE
        outcome = waiting.pop(0) if waiting else None
        if isinstance(outcome, Exception):
            raise outcome

    monkeypatch.setattr(leases, "renew", renew)
    return waiting


@pytest.fixture(autouse=True)
def nobody_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancel, "requested", lambda _: False)


@pytest.fixture
def keeper(clock: Clock) -> Keeper:
    return Keeper(LEASE, clock.now)


def test_a_fresh_lease_is_good(keeper: Keeper) -> None:
    keeper.check()


def test_two_thirds_without_a_renewal_are_the_end(keeper: Keeper, clock: Clock) -> None:
    clock.now += 20.0
    keeper.check()
    clock.now += 0.1
    with pytest.raises(LeaseLost):
        keeper.check()


def test_time_that_passed_between_the_claim_and_the_work_counts(clock: Clock) -> None:
    keeper = Keeper(LEASE, clock.now - 21)
    with pytest.raises(LeaseLost):
        keeper.check()


def test_a_renewal_starts_the_count_again_from_when_it_was_asked_for(keeper: Keeper, clock: Clock, renewals: list[object]) -> None:
    clock.now += 15
    keeper._renew()
    clock.now += 20
    keeper.check()
    clock.now += 0.1
    with pytest.raises(LeaseLost):
        keeper.check()


def test_a_renewal_that_is_refused_ends_the_work_at_once(keeper: Keeper, renewals: list[object]) -> None:
    renewals.append(LeaseLost("op_1"))
    keeper._renew()
    with pytest.raises(LeaseLost):
        keeper.check()


@pytest.mark.parametrize("fault", [OperationalError("the server is starting up"), RuntimeError("anything")])
def test_a_database_that_comes_back_in_time_costs_nothing(keeper: Keeper, clock: Clock, renewals: list[object], fault: Exception) -> None:
    renewals += [fault, None]
    clock.now += 10
    keeper._renew()
    keeper.check()
    clock.now += 10
    keeper._renew()
    clock.now += 19
    keeper.check()


def test_a_database_that_does_not_come_back_ends_the_work(keeper: Keeper, clock: Clock, renewals: list[object]) -> None:
    renewals += [OperationalError("gone")] * 2
    for _ in range(2):
        clock.now += 10.1
        keeper._renew()
    with pytest.raises(LeaseLost):
        keeper.check()


def test_each_renewal_gives_its_connection_back_for_many_keepers_share_few(
    keeper: Keeper, renewals: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[str]()
    monkeypatch.setattr(keeping, "give_back_connection", lambda: given.append("back"))
    renewals += [None, OperationalError("gone")]
    keeper._renew()
    keeper._renew()
    assert given == ["back", "back"]


class Ticks:
    """Stands for the keeper's event: every wait ends at once, as long as the test has ticks left."""

    def __init__(self, ticks: int):
        self.left, self.waits = ticks, list[float]()

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.left -= 1
        return self.left < 0

    def set(self) -> None:
        self.left = 0


def test_the_thread_renews_every_third_of_the_lease_and_ends_with_the_work(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, renewed = Ticks(30), list[Lease]()
    keeper._over = ticks  # type: ignore[assignment]
    monkeypatch.setattr(leases, "renew", renewed.append)
    with keeper:
        keeper._thread.join()
    assert (renewed, set(ticks.waits)) == ([LEASE] * 3, {1.0})
    assert not keeper._thread.is_alive()


def test_the_thread_ends_once_the_lease_is_lost(keeper: Keeper, renewals: list[object]) -> None:
    ticks = Ticks(100)
    keeper._over = ticks  # type: ignore[assignment]
    renewals += [None, LeaseLost("op_1")]
    with keeper:
        keeper._thread.join()
        with pytest.raises(LeaseLost):
            keeper.check()
    assert len(ticks.waits) == 20


def test_the_thread_hears_a_cancel_and_asks_no_more(keeper: Keeper, renewals: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def requested(operation_id: str) -> bool:
        asked.append(operation_id)
        return len(asked) == 3

    monkeypatch.setattr(cancel, "requested", requested)
    keeper._over = Ticks(8)  # type: ignore[assignment]
    with keeper:
        keeper._thread.join()
    assert keeper.cancelled()
    assert asked == ["op_1"] * 3


@pytest.mark.django_db(transaction=True)
def test_the_thread_leaves_no_database_connection_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[object]()

    def renew(_: Lease) -> None:
        connection.ensure_connection()
        seen.append(connection.connection)

    monkeypatch.setattr(leases, "renew", renew)
    keeper = Keeper(LEASE, 0.0)
    keeper._over = Ticks(10)  # type: ignore[assignment]
    with keeper:
        keeper._thread.join()
    assert [one.closed for one in seen] == [True]  # type: ignore[attr-defined]


def test_a_cancel_is_told_to_the_work_once_for_what_cleans_up_after_it_asks_again(keeper: Keeper) -> None:
    keeper.hear_cancel()
    with pytest.raises(Cancelled):
        keeper.check()
    keeper.check()
    assert keeper.cancelled()


def test_work_that_cannot_be_left_any_more_asks_for_its_lease_alone(keeper: Keeper, clock: Clock) -> None:
    keeper.hear_cancel()
    keeper.check_lease()
    clock.now += 20.1
    with pytest.raises(LeaseLost):
        keeper.check_lease()
