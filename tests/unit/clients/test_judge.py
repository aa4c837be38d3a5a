"""The judge of the client matrix: what it counts as paid once and as whole, and what it refuses to judge."""

import pytest

from tests.clients.judge import Run, Verdict, judged

UNCUT = Run(None, 1, "Hello.", 0)


def test_a_run_is_whole_when_it_ends_well_with_the_output_of_the_uncut_one() -> None:
    runs = [Run(0, 1, "Hello.", 0), Run(1, 1, "Hel", 0), Run(2, 1, "Hello.", 1)]
    assert judged(UNCUT, runs) == Verdict(cuts=3, paid_once=3, whole=1, other=(1, 2))


def test_a_call_more_than_the_uncut_run_had_is_paid_twice() -> None:
    assert judged(UNCUT, [Run(0, 2, "Hello.", 0), Run(1, 1, "Hello.", 0)]) == Verdict(cuts=2, paid_once=1, whole=2, other=())


@pytest.mark.parametrize("uncut", [Run(None, 1, "Hello.", 1), Run(None, 1, " ", 0), Run(None, 0, "Hello.", 0)])
def test_an_uncut_run_that_failed_measures_nothing(uncut: Run) -> None:
    with pytest.raises(ValueError, match="no measure"):
        judged(uncut, [Run(0, 1, "Hello.", 0)])


@pytest.mark.parametrize("runs", [[], [Run(0, 1, "Hello.", 0, made=False)]])
def test_without_a_cut_there_is_nothing_to_judge(runs: list[Run]) -> None:
    with pytest.raises(ValueError, match="cut"):
        judged(UNCUT, runs)
