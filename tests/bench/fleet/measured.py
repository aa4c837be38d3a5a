"""What is measured on the way, and the rows that are published of it."""

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.bench.fleet.asking import Outcome
from tests.bench.report import Row, row

MIB = 1 << 20
#: By where the images of a resume came from.
WARMTH = {"cached": "hot", "host": "warm", "store": "cold"}


@dataclass(frozen=True)
class Way:
    """Of one resume: the host that did it, and the one that had saved what it went on from. Empty: not known."""

    host: str = ""
    saved_on: str = ""


@dataclass
class Measured:
    """Seconds. Any thread may add."""

    resumes: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    recoveries: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    moved: list[float] = field(default_factory=list)  # MiB
    kinds: dict[int, str] = field(default_factory=dict)  # of each fault, by its number
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def resumed(self, outcome: Outcome, way: Way) -> None:
        """From the acceptance of the request to the guest's answer."""
        with self._lock:
            self.resumes["all"].append(outcome.seconds)
            self.resumes[WARMTH.get(outcome.response.get("images_from"), "other")].append(outcome.seconds)
            if way.host and way.saved_on:
                self.resumes["same host" if way.host == way.saved_on else "other host"].append(outcome.seconds)
            fetched = outcome.response.get("fetched_bytes")
            if way.host != way.saved_on and fetched is not None:
                self.moved.append(fetched / MIB)

    def began(self, fault: int, kind: str) -> None:
        with self._lock:
            self.kinds[fault] = kind

    def recovered(self, fault: int, seconds: float) -> None:
        """A session that the fault touched has answered rightly, so long after the fault began."""
        with self._lock:
            self.recoveries[self.kinds[fault]].append(seconds)

    def rows(self, counts: Mapping[str, int]) -> list[Row]:
        found = [row(f"resume, {kind}", "s", values) for kind, values in sorted(self.resumes.items())]
        found += [row(f"answers again after: {kind}", "s", values) for kind, values in sorted(self.recoveries.items())]
        if self.moved:
            found.append(row("fetched by a resume on another host", "MiB", self.moved))
        by_act = Counter({name.removesuffix(" done"): count for name, count in counts.items() if name.endswith(" done")})
        return [*found, *(row(f"operations: {act}", "", [float(count)]) for act, count in sorted(by_act.items()))]
