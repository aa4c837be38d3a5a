"""A deaf worker is told from one that is idle, busy, or without a broker."""

import pytest

from workers.deaf import Ear

LOOKS = 3


@pytest.fixture
def ear() -> Ear:
    return Ear(LOOKS)


def judged(ear: Ear, waiting: int | None, *, busy: bool = False, hears: bool = False) -> list[bool]:
    """Look by look."""
    found = []
    for _ in range(LOOKS + 1):
        if hears:
            ear.hear()
        found.append(ear.is_deaf(waiting, busy=busy))
    return found


def test_messages_that_wait_and_are_not_heard_make_it_deaf_after_so_many_looks(ear: Ear) -> None:
    assert judged(ear, 5) == [False, False, True, True]


@pytest.mark.parametrize(
    ("waiting", "busy", "hears"),
    [(0, False, False), (None, False, False), (5, True, False), (5, False, True)],
    ids=["nothing waits", "the broker is away", "no slot is free", "it hears"],
)
def test_any_other_silence_is_none(ear: Ear, waiting: int | None, busy: bool, hears: bool) -> None:
    assert judged(ear, waiting, busy=busy, hears=hears) == [False] * (LOOKS + 1)


def test_what_is_heard_in_between_begins_the_looks_anew(ear: Ear) -> None:
    judged_first = [ear.is_deaf(1, busy=False) for _ in range(LOOKS - 1)]
    ear.hear()
    assert [*judged_first, *judged(ear, 1)] == [False, False, False, False, False, True]
