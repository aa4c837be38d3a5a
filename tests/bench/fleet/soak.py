"""The soak: a fleet under random work and faults, then the judge."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.fleet.acts import Acts
from tests.bench.fleet.asking import Asking
from tests.bench.fleet.clients import Clients
from tests.bench.fleet.faults import FAULTS, plan
from tests.bench.fleet.house import House
from tests.bench.fleet.journal import Journal
from tests.bench.fleet.judge import Judge
from tests.bench.fleet.ledger import Known, Ledger
from tests.bench.fleet.measured import Measured
from tests.bench.fleet.rota import Rota
from tests.bench.report import Row, row
from tests.bench.soak_footprint import Footprint, footprint
from tests.gates.fleet.room import FleetRoom

_TICK_SECONDS = 0.2


@dataclass(frozen=True)
class Wanted:
    """`bound_seconds`: within which every operation must end, and everything settle once the faults are over. `hosts`: those that are hit.

    `kinds`: of faults, each once before any comes again.
    """

    seconds: float
    sessions: int
    clients: int
    pause_seconds: float
    seed: int
    fault_every: float
    bound_seconds: float
    hosts: Sequence[str] = ("h-1", "h-2", "h-3")
    kinds: Sequence[str] = tuple(FAULTS)


class Soak:
    def __init__(self, fleet: FleetRoom, wanted: Wanted, file: Path) -> None:
        self.wanted, self.journal, self.house = wanted, Journal(file), House(fleet)
        self.ledger, self.measured = Ledger(), Measured()
        self.asking = Asking(fleet.client, self.journal, wanted.bound_seconds)
        chance = random.Random(f"acts {wanted.seed}")
        self.acts = Acts(self.asking, self.house, self.journal, self.ledger, self.measured, chance, wanted.bound_seconds)
        self.clients = Clients(self.acts, wanted.sessions, wanted.clients, wanted.pause_seconds, wanted.seed)
        self.judge = Judge(self.house, self.journal, self.ledger, wanted.bound_seconds)
        self.growth: list[float] = []

    @property
    def findings(self) -> list[str]:
        return self.journal.findings

    def run(self) -> None:
        """Prerequisite: the main thread. Raises nothing for what the product does wrong: that is in `findings`, and in the journal."""
        self._fill()
        schedule = plan(self.wanted.seed, self.wanted.seconds, self.wanted.fault_every, self.wanted.hosts, self.wanted.kinds)
        self.journal.write("schedule", seed=self.wanted.seed, faults=[planned.words() for planned in schedule])
        rota = Rota(self.house, self.journal, self.ledger, self.measured, schedule)
        began, warm = time.monotonic(), None
        self.clients.start()
        while (at := time.monotonic() - began) < self.wanted.seconds:
            rota.turn(at)
            if warm is None and at > self.wanted.seconds / 4:
                warm = footprint(self.house.fleet.root)
            time.sleep(_TICK_SECONDS)
        self.journal.write("the faults are over")
        rota.over()
        self.clients.join(2 * self.wanted.bound_seconds)
        self._judge(warm)
        self.journal.close()

    def _fill(self) -> None:
        """A few machines that boot, and children of them."""
        first = self.acts.start()
        while first is None:
            first = self.acts.start()
        while (missing := self.wanted.sessions - len(self.ledger.living())) > 0:
            parent: Known = self.acts.random.choice(self.ledger.living())
            with parent.lock:
                self.acts.fork(parent, min(missing, 4))

    def _judge(self, warm: Footprint | None) -> None:
        self.judge.everything_answers(self.acts)
        self.judge.nothing_left(sessions=True)
        if warm is not None:
            self.growth = self.judge.growth(warm, footprint(self.house.fleet.root))
        self.judge.store(empty=False)
        for known in self.ledger.living():
            with known.lock:
                self.acts.delete(known)
        self.judge.nothing_left(sessions=False)
        self.judge.store(empty=True)

    def rows(self) -> list[Row]:
        grown = [row("growth of a process's resident memory", "MiB", self.growth)] if self.growth else []
        return [*self.measured.rows(self.asking.counts), *grown]

    def details(self) -> dict[str, Any]:
        return {"seed": self.wanted.seed, "counts": dict(sorted(self.asking.counts.items())), "findings": self.findings}
