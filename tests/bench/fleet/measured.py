"""What is measured on the way, and the rows that are published of it."""

import threading
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from tests.bench.fleet.asking import Outcome
from tests.bench.report import Row, quantile, row

MIB = 1 << 20
#: By where the images of a resume came from.
WARMTH = {"cached": "hot", "host": "warm", "store": "cold"}
#: How an operator's move ended, by the event that tells of it.
MOVES = {"session.moved": "moved", "session.move_failed": "stayed where it was"}


@dataclass(frozen=True)
class Way:
    """Of one resume: the host that did it, and the one that had saved what it went on from. Empty: not known."""

    host: str = ""
    saved_on: str = ""


@dataclass
class Reign:
    """One fault: seconds since the start. `owed`: sessions that it touched; `answers`: when each of them answered rightly again."""

    kind: str
    began: float
    ended: float | None = None
    owed: int = 0
    answers: list[float] = field(default_factory=list)


@dataclass
class Measured:
    """Seconds, unless told otherwise. Any thread may add. `compared`: answers of machines that were held against the model."""

    resumes: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    fetched: list[float] = field(default_factory=list)  # MiB, by a resume on another host
    moves: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))  # an operator's: facts, by their ends
    reigns: dict[int, Reign] = field(default_factory=dict)  # of each fault, by its number
    compared: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def resumed(self, outcome: Outcome, way: Way) -> None:
        """From the acceptance of the request to the guest's answer."""
        with self._lock:
            self.resumes["all"].append(outcome.seconds)
            self.resumes[WARMTH.get(outcome.response.get("images_from"), "other")].append(outcome.seconds)
            if not way.host or not way.saved_on:
                return
            self.resumes["same host" if way.host == way.saved_on else "other host"].append(outcome.seconds)
            fetched = outcome.response.get("fetched_bytes")
            if way.host != way.saved_on and fetched is not None:
                self.fetched.append(fetched / MIB)

    def moved_by_operator(self, event: str, facts: dict[str, Any]) -> None:
        """Whose save succeeded; `event` as its history tells of the end, or empty where it does not."""
        with self._lock:
            self.moves[MOVES.get(event, "resumed by another request")].append(facts)

    def judged(self) -> None:
        with self._lock:
            self.compared += 1

    def began(self, fault: int, kind: str, at: float) -> None:
        with self._lock:
            self.reigns[fault] = Reign(kind, at)

    def touched(self, fault: int, sessions: int) -> None:
        with self._lock:
            self.reigns[fault].owed = sessions

    def over(self, fault: int, at: float) -> None:
        with self._lock:
            self.reigns[fault].ended = at

    def recovered(self, fault: int, at: float) -> None:
        """A session that the fault touched has answered rightly."""
        with self._lock:
            self.reigns[fault].answers.append(at)

    @property
    def recoveries(self) -> dict[str, list[float]]:
        """By kind of fault: from its begin to the next right answer of each session that it touched."""
        found: dict[str, list[float]] = defaultdict(list)
        for reign in self.reigns.values():
            found[reign.kind] += [at - reign.began for at in reign.answers]
        return {kind: values for kind, values in found.items() if values}

    def rows(self) -> list[Row]:
        found = [row(f"resume, {kind}", "s", values) for kind, values in sorted(self.resumes.items())]
        found += [self._recovery(kind, values) for kind, values in sorted(self.recoveries.items())]
        moved = self.moves.get("moved", [])
        for name, unit, values in (
            ("fetched by a resume on another host", "MiB", self.fetched),
            ("moved by an operator, away", "s", _of(moved, "seconds_away")),
            ("moved by an operator, new in the store", "MiB", [value / MIB for value in _of(moved, "stored_bytes")]),
            ("moved by an operator, fetched", "MiB", [value / MIB for value in _of(moved, "fetched_bytes")]),
        ):
            found += [row(name, unit, values)] if values else []
        return found

    def _recovery(self, kind: str, values: list[float]) -> Row:
        """Beside: how often it came and how long it lasted, how many sessions it touched, and how many answered while it lasted."""
        reigns = [reign for reign in self.reigns.values() if reign.kind == kind]
        over = [(reign, reign.ended) for reign in reigns if reign.ended is not None]
        beside: dict[str, float] = {"faults": len(reigns), "touched": sum(reign.owed for reign in reigns)}
        if over:
            beside["lasted_p50"] = round(quantile([ended - reign.began for reign, ended in over], 0.5), 1)
            beside["while_it_lasted"] = sum(at < ended for reign, ended in over for at in reign.answers)
        return replace(row(f"answers again after: {kind}", "s", values), beside=beside)


def _of(moved: list[dict[str, Any]], fact: str) -> list[float]:
    return [float(facts[fact]) for facts in moved if facts[fact] is not None]
