"""The rules of placement over made-up hosts: never more than is offered, nothing lost, in order, and nobody starved."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workers.host.choice import Demand, choose, suitable
from workers.host.offers import Offer
from workers.states import Heat

ROOT, IMAGE = "c" * 64, "a" * 64


def offer(name: str, free: int, offered: int = 8, **fields: object) -> Offer:
    made = Offer(name, frozenset({"pin"}), frozenset({"x86_64"}), False, offered, free, {})
    return replace(made, **fields)  # type: ignore[arg-type]


def demand(memory: int, **fields: object) -> Demand:
    return replace(Demand("x86_64", IMAGE, memory, "pin", ROOT), **fields)  # type: ignore[arg-type]


def test_hot_comes_before_warm_and_warm_before_room() -> None:
    hosts = [offer("roomy", 8), offer("warm", 4, has={ROOT: Heat.WARM}), offer("hot", 2, has={ROOT: Heat.HOT})]
    assert choose([demand(2)] * 4, hosts) == ["hot", "warm", "warm", "roomy"]


def test_boots_are_spread_by_the_share_that_stays_free() -> None:
    assert sorted(choose([demand(1, pin="")] * 4, [offer("large", 8), offer("small", 4, 4)])) == ["large"] * 3 + ["small"]


def test_a_host_that_is_known_to_have_the_guest_image_is_taken_and_waited_for() -> None:
    hosts = [offer("without", 8), offer("with", 1, has={IMAGE: Heat.IMAGE})]
    assert choose([demand(1), demand(1)], hosts) == ["with", ""]


def test_of_two_that_have_waited_for_long_the_first_keeps_one_host_and_the_second_none() -> None:
    hosts = [offer("one", 3), offer("two", 2)]
    assert choose([demand(8, waited_long=True), demand(7, waited_long=True), demand(2), demand(1)], hosts) == ["", "", "two", ""]


def test_what_needs_no_room_is_done_where_too_much_is_promised() -> None:
    assert choose([demand(0)], [offer("one", -4)]) == ["one"]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.sampled_from(["pin", "other"])), max_size=12),
    st.lists(st.tuples(st.integers(-2, 9), st.booleans()), max_size=4),
)
def test_whatever_is_asked_nobody_is_promised_more_than_there_is(asked: list[tuple[int, bool, str]], free: list[tuple[int, bool]]) -> None:
    hosts = [offer(f"h-{number}", room, 9, draining=draining) for number, (room, draining) in enumerate(free)]
    demands = [demand(memory, waited_long=long, pin=pin) for memory, long, pin in asked]
    chosen = choose(demands, hosts)
    assert len(chosen) == len(demands)
    for host, (room, draining) in zip(hosts, free, strict=True):
        mine = [one for one, name in zip(demands, chosen, strict=True) if name == host.host_id]
        taken = sum(one.memory_bytes for one in mine)
        assert taken <= max(room, 0)
        assert host.free_bytes == room - taken
        assert not (draining and mine)
        assert all(one.pin == "pin" for one in mine)
    for number, (one, name) in enumerate(zip(demands, chosen, strict=True)):
        if not name and one.pin == "pin" and not any(before.waited_long for before in demands[:number]):
            assert all(host.draining or host.free_bytes < one.memory_bytes for host in hosts), "what waits fits nowhere"


def one_by_one(demands: Sequence[Demand], offers: Sequence[Offer]) -> list[str]:
    """The rules without a short cut: each is judged by all that is free when its turn comes, the first long one keeps a host."""
    hosts: list[str] = []
    kept: Offer | None = None
    for one in demands:
        open_to = [offer for offer in offers if offer is not kept]
        hosts += choose([replace(one, waited_long=False, more_behind=False)], open_to)
        if not hosts[-1] and one.waited_long and kept is None:
            large = [offer for offer in suitable(one, open_to) if not offer.draining and offer.offered_bytes >= one.memory_bytes]
            kept = max(large, key=lambda offer: offer.free_bytes, default=None)
    return hosts


def shares(demands: Sequence[Demand], most: int) -> list[Demand]:
    """The first `most` of each kind, as workers/host/line.py finds them."""
    seen, found = Counter[str](), []
    for one in demands:
        seen[one.kind] += 1
        if seen[one.kind] <= most:
            found.append(replace(one, more_behind=seen[one.kind] == most))
    return found


ASKED = st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 4, 8]), st.booleans(), st.sampled_from(["pin", "two", "none"])), max_size=14)
FREE = st.lists(st.tuples(st.integers(-1, 9), st.sets(st.sampled_from(["pin", "two"]))), max_size=3)


@given(ASKED, FREE)
def test_that_equals_are_not_judged_one_by_one_changes_nothing(
    asked: list[tuple[int, bool, str]], free: list[tuple[int, set[str]]]
) -> None:
    demands = [demand(memory, waited_long=long, pin=pin) for memory, long, pin in asked]
    at_once, apart = ([offer(f"h-{n}", room, 9, pins=frozenset(pins)) for n, (room, pins) in enumerate(free)] for _ in range(2))
    assert choose(demands, at_once) == one_by_one(demands, apart)


@given(ASKED, FREE, st.integers(1, 3))
@example([(0, False, "pin"), (0, False, "pin"), (1, False, "pin")], [(3, {"pin"})], 1)
def test_turns_that_look_at_the_first_of_each_kind_come_to_what_one_look_at_all_would(
    asked: list[tuple[int, bool, str]], free: list[tuple[int, set[str]]], most: int
) -> None:
    """Of each kind one size, and who came first has waited longest. Else a smaller one, or one that keeps a host, may stand unseen for a
    while behind others of its kind.
    """
    began = sum(long for _, long, _ in asked)
    demands = [
        demand(1 << memory, waited_long=number < began, pin=pin, memory_root=str(number)) for number, (memory, _, pin) in enumerate(asked)
    ]
    whole, parts = ([offer(f"h-{n}", room, 99, pins=frozenset(pins)) for n, (room, pins) in enumerate(free)] for _ in range(2))
    expected = {one.memory_root: host for one, host in zip(demands, choose(demands, whole), strict=True) if host}
    placed: dict[str, str] = {}
    for _ in range(len(demands) + 1):
        looked_at = shares([one for one in demands if one.memory_root not in placed], most)
        placed |= {one.memory_root: host for one, host in zip(looked_at, choose(looked_at, parts), strict=True) if host}
    assert placed == expected


@pytest.mark.parametrize("host", ["one", "two"])
def test_what_is_bound_to_a_host_goes_nowhere_else(host: str) -> None:
    assert choose([demand(4, host_id=host)] * 3, [offer("one", 8), offer("two", 8)]) == [host, host, ""]
