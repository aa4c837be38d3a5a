"""What a client's runs say: the run without a cut is what the others are held to. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """`cut`: after so many events of the first answer; None: not at all. `calls`: on the provider's bill. `made`: whether it was cut."""

    cut: int | None
    calls: int
    output: str
    code: int
    made: bool = True


@dataclass(frozen=True)
class Verdict:
    """Of `cuts` that were made: in how many the provider billed what it bills without one, and how many ended with the same output.

    `other`: the cuts whose output was another, or that ended in an error.
    """

    cuts: int
    paid_once: int
    whole: int
    other: tuple[int, ...]


def judged(uncut: Run, runs: Sequence[Run]) -> Verdict:
    """Raises ValueError where there is nothing to judge by: an uncut run that failed or said nothing, a cut that was not made."""
    if uncut.code != 0 or not uncut.output.strip() or uncut.calls < 1:
        raise ValueError(f"the run without a cut is no measure: code {uncut.code}, {uncut.calls} calls, output {uncut.output[:200]!r}")
    missed = [run.cut for run in runs if not run.made]
    if missed or not runs:
        raise ValueError(f"no connection was cut where it should have been: {missed}")
    whole = [run for run in runs if run.code == 0 and run.output == uncut.output]
    other = tuple(run.cut for run in runs if run not in whole and run.cut is not None)
    return Verdict(len(runs), sum(run.calls == uncut.calls for run in runs), len(whole), other)
