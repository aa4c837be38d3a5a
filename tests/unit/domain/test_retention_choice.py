"""What a policy keeps: the choice itself, without a database."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from checkpoints_app.services.retention_choice import Point, choose
from sessions_app.services.retention import Rules

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
MOMENTS = st.integers(0, 60 * 24 * 40).map(lambda minutes: NOON - timedelta(minutes=minutes))
FLAGS = st.booleans() | st.just(False)
COUNTS = st.integers(0, 6)
RULES = st.builds(Rules, keep_last=COUNTS, keep_hourly=COUNTS, keep_daily=COUNTS, keep_weekly=COUNTS, keep_named=st.booleans())


@st.composite
def points(draw) -> list[Point]:
    moments = draw(st.lists(MOMENTS, max_size=25))
    made = [Point(f"ck_{number}", at, draw(FLAGS), draw(FLAGS), False, draw(FLAGS)) for number, at in enumerate(moments)]
    if not made:
        return []
    head = draw(st.integers(0, len(made) - 1))
    return [Point(p.id, p.created_at, p.named, p.held, number == head, p.needed) for number, p in enumerate(made)]


def saved(*hours_ago: float, **flags: bool) -> list[Point]:
    return [Point(f"{hours:g}h", NOON - timedelta(hours=hours), **flags) for hours in hours_ago]


def kept(points: list[Point], **rules: Any) -> list[str]:
    return [point_id for point_id, reasons in choose(points, Rules(**rules)).items() if reasons]


def test_the_newest_stay() -> None:
    assert kept(saved(3, 1, 2, 4), keep_last=2) == ["1h", "2h"]


def test_of_each_hour_the_newest_stays() -> None:
    assert kept(saved(0.1, 0.5, 0.9, 1.2, 1.8, 5), keep_hourly=2) == ["0.1h", "1.2h"]


def test_hours_without_a_point_do_not_count() -> None:
    assert kept(saved(100, 200, 300), keep_hourly=2, keep_daily=0) == ["100h", "200h"]


def test_days_and_weeks_are_of_utc_and_of_the_calendar() -> None:
    monday = datetime(2026, 3, 2, 0, 30, tzinfo=UTC)
    tokyo = monday.astimezone(tz=None)
    around = [Point("monday", tokyo), Point("sunday", monday - timedelta(hours=1)), Point("saturday", monday - timedelta(hours=30))]
    assert kept(around, keep_daily=2) == ["monday", "sunday"]
    assert kept(around, keep_weekly=2) == ["monday", "sunday"]


def test_rules_add_up_and_each_says_what_it_keeps() -> None:
    told = choose(saved(0.1, 0.2, 30), Rules(keep_last=1, keep_daily=2))
    assert told == {"0.1h": ("keep_last", "keep_daily"), "0.2h": (), "30h": ("keep_daily",)}


def test_named_points_stay_beside_the_counts_or_within_them() -> None:
    some = [*saved(1, 2), *saved(0.5, 3, named=True)]
    assert kept(some, keep_last=1, keep_named=True) == ["0.5h", "1h", "3h"]
    assert kept(some, keep_last=1, keep_named=False) == ["0.5h", "3h"]


@given(points(), RULES)
def test_what_must_stay_stays_whatever_the_rules(some: list[Point], rules: Rules) -> None:
    told = choose(some, rules)
    assert all(told[point.id] for point in some if point.head or point.named or point.held or point.needed)


@given(points(), RULES)
def test_nothing_more_is_kept_by_counts_than_was_asked_and_nothing_less(some: list[Point], rules: Rules) -> None:
    told = choose(some, rules)
    for name, count in rules.counts.items():
        assert sum(name in reasons for reasons in told.values()) <= count
    assert sum("keep_last" in reasons for reasons in told.values()) == min(
        rules.keep_last, sum(not (point.named and rules.keep_named) for point in some)
    )


@given(points(), RULES, st.randoms())
def test_the_order_in_which_points_are_given_does_not_matter(some: list[Point], rules: Rules, random) -> None:
    shuffled = list(some)
    random.shuffle(shuffled)
    assert choose(shuffled, rules) == choose(some, rules)


@given(points(), RULES)
def test_choosing_again_among_what_was_kept_expires_nothing_more(some: list[Point], rules: Rules) -> None:
    told = choose(some, rules)
    left = [point for point in some if told[point.id]]
    assert all(choose(left, rules).values())


@given(points(), RULES, st.integers(1, 20))
def test_expiring_a_few_at_a_time_ends_at_the_same(some: list[Point], rules: Rules, batch: int) -> None:
    """A turn decides over a batch, and another one follows: what is kept in the end is what was shown at the beginning."""
    told, left = choose(some, rules), list(some)
    while gone := [point for point in left if not choose(left, rules)[point.id]][-batch:]:
        left = [point for point in left if point not in gone]
    assert {point.id for point in left} == {point_id for point_id, reasons in told.items() if reasons}
