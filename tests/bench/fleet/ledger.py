"""What is known of each session from the API's own answers: what its machine holds, and what each of its checkpoints does."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.bench.fleet.guest import Said, State

States = frozenset[State]


@dataclass
class Known:
    """One session. Whoever holds `lock` is the only client that acts on it.

    `states`: what its machine may hold now. It is one state, or two while a step was asked for whose answer was lost. `saved`: what each of
    its checkpoints may hold; `count`: the program's own count, as it was last heard, and at each checkpoint at least.
    """

    id: str
    states: States
    saved: dict[str, States] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    head: str = ""
    tried: str = ""  # the checkpoint that a resume named whose end is not known
    epoch: int = 0
    count: int = 0
    unanswered: int = 0  # questions in a row that its program did not answer in time, while its machine was there
    begun: bool = False  # its program runs, and a first checkpoint holds it
    deleted: bool = False
    is_child: bool = False  # of a fork
    lock: threading.Lock = field(default_factory=threading.Lock)
    owed: dict[int, float] = field(default_factory=dict)  # number of a fault that touched it: when, until it has answered again

    def next_step(self) -> tuple[int, str]:
        """The number and the token of the step to ask for now: a step whose answer was lost is asked for again, as it was."""
        longest = max(self.states, key=lambda state: state.step)
        if len(self.states) > 1:
            return longest.step, longest.tokens[-1]
        return longest.step + 1, f"{self.id[:8]}.{self.epoch}.{longest.step + 1}"

    def asked(self, token: str) -> None:
        """The step of that token may be done from now on, or not."""
        if len(self.states) == 1:
            (state,) = self.states
            self.states |= {state.after(token)}

    def heard(self, said: Said, *, answered_step: bool) -> str:
        """What is wrong with what its program said; "" if nothing is. `answered_step`: it was asked for a step, which it must have done."""
        fits = [state for state in self.states if said.is_of(state)]
        if not fits:
            known = ", ".join(f"step {state.step} of {state.nonce}" for state in self.states)
            return f"it holds step {said.step} of {said.nonce}, or a mix; it must hold {known}"
        if said.count < self.count:
            return f"its program counted to {said.count}, and to {self.count} before: it is older than it may be"
        longest = max(state.step for state in self.states)
        if answered_step and said.step != longest:
            return f"it was asked for step {longest} and answered at step {said.step}"
        self.count = said.count
        if said.step == longest:  # what was done is done; what was not done yet may still come
            self.states = frozenset(fits)
        return ""

    def saved_as(self, checkpoint_id: str, states: States, count: int) -> None:
        """A new checkpoint, which is the head now."""
        self.saved[checkpoint_id], self.counts[checkpoint_id] = states, count
        self.head = checkpoint_id

    def goes_on(self, checkpoint_id: str, epoch: int) -> str:
        """Its machine is that of a new epoch, from that checkpoint. What is wrong with that; "" if nothing is."""
        allowed = {self.head, self.tried} - {""}
        states = self.saved.get(checkpoint_id)
        if states is None:
            return f"it goes on from {checkpoint_id}, which is none of its saves"
        self.epoch, self.head, self.tried = epoch, checkpoint_id, ""
        self.states, self.count = states, self.counts[checkpoint_id]
        return "" if checkpoint_id in allowed else f"it goes on from {checkpoint_id}; it must be from {' or '.join(sorted(allowed))}"


class Ledger:
    """Every session that this soak has made. Any thread may ask."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._lock = threading.Lock()

    def add(self, known: Known) -> Known:
        with self._lock:
            return self._known.setdefault(known.id, known)

    def all(self) -> list[Known]:
        with self._lock:
            return list(self._known.values())

    def living(self) -> list[Known]:
        return [known for known in self.all() if not known.deleted]

    def get(self, session_id: str) -> Known | None:
        with self._lock:
            return self._known.get(session_id)

    def owe(self, fault: int, at: float, touched: Iterable[str]) -> int:
        """These sessions were touched by that fault: their next good answer ends it for them. How many they are."""
        wanted = set(touched)
        owing = [known for known in self.living() if known.id in wanted and known.begun]
        for known in owing:
            known.owed[fault] = at
        return len(owing)
