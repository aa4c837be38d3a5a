"""Carries the schedule out: begins each fault, ends it, and starts again what an init system would have."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from tests.bench.fleet.faults import FAULTS, Planned
from tests.bench.fleet.house import House
from tests.bench.fleet.journal import Journal
from tests.bench.fleet.ledger import Ledger
from tests.bench.fleet.measured import Measured


@dataclass
class Rota:
    """Prerequisite: used from the main thread, with which what it starts would end."""

    house: House
    journal: Journal
    ledger: Ledger
    measured: Measured
    waiting: list[Planned]
    _on: list[tuple[Planned, AbstractContextManager[None]]] = field(default_factory=list)

    def turn(self, at: float) -> None:
        """What is due at that time of the schedule."""
        for planned, running in list(self._on):
            if planned.ends <= at:
                self._end(planned, running)
        while self.waiting and self.waiting[0].begins <= at:
            self._begin(self.waiting.pop(0))
        self._revive()

    def over(self) -> None:
        """Every fault ends, and every host takes work again."""
        for planned, running in list(self._on):
            self._end(planned, running)
        self._revive()
        for host in self.house.fleet.hosts.values():
            host.ready()

    def _begin(self, planned: Planned) -> None:
        fault = FAULTS[planned.kind]
        touched = self.house.sessions_of(planned.host) if fault.of_host else [known.id for known in self.ledger.living()]
        began = self.journal.now()
        self.journal.write("fault", **planned.words(), touched=len(touched))
        running = fault.during(self.house.fleet, planned.host)
        running.__enter__()
        self._on.append((planned, running))
        self.measured.began(planned.number, planned.kind, began)
        self.measured.touched(planned.number, self.ledger.owe(planned.number, began, touched))

    def _end(self, planned: Planned, running: AbstractContextManager[None]) -> None:
        self._on.remove((planned, running))
        running.__exit__(None, None, None)
        self.measured.over(planned.number, self.journal.now())
        self.journal.write("fault over", number=planned.number, kind=planned.kind)

    def _revive(self) -> None:
        held = {planned.host for planned, _ in self._on}
        for name, host in self.house.fleet.hosts.items():
            if name not in held and not host.is_up:
                self.journal.write("host started again", host=name)
                host.start(wait=False)
        store = self.house.fleet.s3
        if store is not None and not store.is_up and not any(FAULTS[planned.kind].of_store for planned, _ in self._on):
            self.journal.write("store started again")  # another process had taken one of its ports
            store.start(wait=False)
