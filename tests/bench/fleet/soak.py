"""The soak: a fleet under random work and faults, then the judge."""

import os
import random
import time
import traceback
from collections.abc import Mapping, Sequence
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
from tests.bench.fleet.operator import Operator
from tests.bench.fleet.refusals import EXPECTED
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
        operator = Operator(fleet)
        self.acts = Acts(self.asking, self.house, operator, self.journal, self.ledger, self.measured, chance, wanted.bound_seconds)
        self.clients = Clients(self.acts, wanted.sessions, wanted.clients, wanted.pause_seconds, wanted.seed)
        self.judge = Judge(self.house, self.journal, self.ledger, wanted.bound_seconds)
        self.growth: list[float] = []
        self.loads: list[float] = []
        self.accelerators: list[str] = []
        self.attempts: dict[str, dict[str, int]] = {}

    @property
    def findings(self) -> list[str]:
        return self.journal.findings

    def run(self) -> None:
        """Prerequisite: the main thread. Raises nothing, whatever goes wrong: that is in `findings`, and in the journal; and so is an end
        that came before everything was judged.
        """
        try:
            self._run()
        except KeyboardInterrupt:
            self.journal.finding("it was interrupted: the end was not judged")
        except Exception as error:
            self.journal.finding(f"the soak itself failed, and the end was not judged: {error!r}", trace=traceback.format_exc())
        self.clients.stop.set()
        self.journal.close()

    def _run(self) -> None:
        self._fill()
        self.accelerators = self.house.accelerators()
        schedule = plan(self.wanted.seed, self.wanted.seconds, self.wanted.fault_every, self.wanted.hosts, self.wanted.kinds)
        self.journal.write("schedule", seed=self.wanted.seed, faults=[planned.words() for planned in schedule])
        rota = Rota(self.house, self.journal, self.ledger, self.measured, schedule)
        began, warm, told = time.monotonic(), None, 0
        self.clients.start()
        while (at := time.monotonic() - began) < self.wanted.seconds:
            rota.turn(at)
            if warm is None and at > self.wanted.seconds / 4:
                warm = footprint(self.house.fleet.root)
            self.loads.append(os.getloadavg()[0])
            if at >= 60 * told:
                print(self._words(at), flush=True)
                told += 1
            time.sleep(_TICK_SECONDS)
        self.journal.write("the faults are over")
        rota.over()
        self.clients.join(2 * self.wanted.bound_seconds)
        self._judge(warm)

    def _words(self, at: float) -> str:
        done, minutes = sum(self.asking.counts.values()), self.wanted.seconds / 60
        return f"{at / 60:.0f} of {minutes:.0f} min: {done} answers, {len(self.ledger.living())} sessions, {len(self.findings)} findings"

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
        self.attempts = self.house.attempts()
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
        loads = [row("load of the machine", "", self.loads)] if self.loads else []
        return [*self.measured.rows(), *grown, *loads]

    def details(self) -> dict[str, Any]:
        """`operations`: of each kind of request, how many were done, refused at once or failed later, by code. `attempts`: of those of the
        sessions that were there at the end. `left over`, by kind, and `looked at`, what the judge had to look at: both empty where the end
        was not judged.
        """
        return {
            "seed": self.wanted.seed,
            "accelerators": self.accelerators,
            "operations": operations(self.asking.counts),
            "sent again": {name: count for name, count in sorted(self.asking.counts.items()) if name.startswith("sent again")},
            "attempts": self.attempts,
            "moves by an operator": {how: len(facts) for how, facts in sorted(self.measured.moves.items())},
            "answers compared with the model": self.measured.compared,
            "sessions": {"made": len(self.ledger.all()), "of which are forks": sum(known.is_child for known in self.ledger.all())},
            "left over": self.judge.left,
            "looked at": self.judge.seen,
            "findings": self.findings,
        }


def operations(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """By kind of request: done, and each refusal and failure with its code."""
    found: dict[str, dict[str, int]] = {}
    for name, count in sorted(counts.items()):
        act, _, end = name.partition(" ")
        if act in EXPECTED:
            found.setdefault(act, {"done": 0})[end] = count
    return found
