"""Some clients at once, each choosing by a seed of its own what it does next with which session."""

import random
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.bench.fleet.acts import Acts
from tests.bench.fleet.ledger import Known

#: What is done how often. A step is taken before most, so that a machine is ahead of its last save.
WEIGHTS: Sequence[tuple[int, Callable[[Acts, Known], object]]] = (
    (30, lambda acts, known: acts.look(known, step=True)),
    (24, lambda acts, known: acts.look(known, step=True) and acts.save(known)),
    (14, lambda acts, known: acts.look(known, step=True) and acts.kill(known)),
    (8, lambda acts, known: acts.look(known) and acts.park(known)),
    (4, lambda acts, known: acts.look(known, step=True) and acts.move(known)),
    (6, lambda acts, known: acts.look(known, step=True) and acts.moved_by_operator(known)),
    (8, lambda acts, known: acts.look(known) and acts.kill(known)),
)
DELETES = 0.05  # the share of visits that delete, once there are as many sessions as there should be
FORKS = 0.8  # the share of new sessions that are children of others


@dataclass
class Clients:
    """`sessions`: as many as there should be. `pause_seconds`: between two acts of one client."""

    acts: Acts
    sessions: int
    count: int
    pause_seconds: float
    seed: int
    stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for number in range(self.count):
            thread = threading.Thread(
                target=self._run, args=(random.Random(f"{self.seed}.{number}"),), name=f"client-{number}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def join(self, seconds: float) -> None:
        """Each ends what it is at. A finding if one does not."""
        self.stop.set()
        for thread in self._threads:
            thread.join(seconds)
            if thread.is_alive():
                self.acts.journal.finding(f"{thread.name} did not end within {seconds:.0f} s")

    def _run(self, chance: random.Random) -> None:
        while not self.stop.wait(self.pause_seconds):
            try:
                self._visit(chance)
            except Exception as error:
                self.acts.journal.finding(f"a client failed: {error!r}", trace=traceback.format_exc())

    def _visit(self, chance: random.Random) -> None:
        living = [known for known in self.acts.ledger.living() if known.begun]
        if len(living) < self.sessions and (not living or chance.random() > FORKS):
            self.acts.start()
            return
        for known in self._order(living, chance):
            if known.lock.acquire(blocking=False):
                try:
                    if not known.deleted:
                        self._act(known, chance, missing=self.sessions - len(living))
                finally:
                    known.lock.release()
                return

    def _order(self, living: list[Known], chance: random.Random) -> list[Known]:
        """First those that have not answered since a fault touched them."""
        chance.shuffle(living)
        return sorted(living, key=lambda known: not known.owed)

    def _act(self, known: Known, chance: random.Random, *, missing: int) -> None:
        if known.owed:
            self.acts.look(known)
        elif missing > 0:
            self.acts.fork(known, min(missing, chance.randint(1, 2)))
        elif chance.random() < DELETES:
            self.acts.delete(known)
        else:
            weights, choices = zip(*WEIGHTS, strict=True)
            chance.choices(choices, weights)[0](self.acts, known)
