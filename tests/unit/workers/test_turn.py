"""Turns with a session on its host: many work at once, one clears away, and a dead one's lock is nobody's."""

import threading

import pytest

from workers.host import turn

MINE, OTHER = "a" * 32, "b" * 32
pytestmark = pytest.mark.usefixtures("host")


def test_work_goes_on_beside_work() -> None:
    with turn.joined(MINE) as first, turn.joined(MINE) as second:
        assert (first, second) == (True, True)


def test_nothing_is_begun_while_the_session_is_cleared_away_and_other_sessions_are_not_kept() -> None:
    with turn.alone(MINE, wait_seconds=0) as alone, turn.joined(MINE) as late, turn.joined(OTHER) as elsewhere:
        assert (alone, late, elsewhere) == (True, False, True)
    with turn.joined(MINE) as again:
        assert again


def test_who_clears_away_waits_for_the_work_of_another_thread_and_says_meanwhile_what_to_end() -> None:
    begun, end = threading.Event(), threading.Event()

    def work() -> None:
        with turn.joined(MINE):
            begun.set()
            end.wait()

    worker = threading.Thread(target=work)
    worker.start()
    begun.wait()
    with turn.alone(MINE, wait_seconds=30, meanwhile=end.set) as mine:
        assert mine
    worker.join()


def test_one_that_waits_in_vain_is_told_so() -> None:
    with turn.joined(MINE), turn.alone(MINE, wait_seconds=0) as mine:
        assert not mine
