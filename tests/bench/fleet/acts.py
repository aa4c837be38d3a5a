"""What a client does with one session, each act followed by what the ledger learns of it.

Prerequisite of each: the caller holds the session's lock. None raises for what the service refuses.
"""

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from keepstate_site.client import Refused
from tests.bench.fleet import guest
from tests.bench.fleet.asking import Asking, Outcome
from tests.bench.fleet.house import House
from tests.bench.fleet.journal import Journal
from tests.bench.fleet.ledger import Known, Ledger, States
from tests.bench.fleet.measured import Measured
from tests.bench.fleet.operator import Operator

IMAGE = "tiny"
_BUSY_SECONDS = 0.5
#: A program that has not answered so often in a row is dead or lost; less is a machine that was paused, or had no processor.
DEAD_AFTER = 3


@dataclass
class Acts:
    asking: Asking
    house: House
    operator: Operator
    journal: Journal
    ledger: Ledger
    measured: Measured
    random: random.Random
    bound_seconds: float
    forks: set[str] = field(default_factory=set)  # sessions whose fork did not end well: children of theirs may be there

    def start(self) -> Known | None:
        """A new session with its program and a first checkpoint. None if one of these did not come about."""
        outcome = self.asking.do("start", "POST", "/api/sessions", {"Image": IMAGE})
        if not outcome.ok:
            return None
        known = self.ledger.add(Known(outcome.response["id"], frozenset(), epoch=outcome.response["execution_epoch"]))
        with known.lock:
            nonce = known.id[:16]
            known.states = frozenset({guest.State(nonce)})
            done = self._exec(known, guest.start(nonce))
            if done.ok and self.look(known) and self.save(known):
                known.begun = True
            else:
                self.delete(known)  # without a first save nothing of it can come back
        return known

    def look(self, known: Known, *, step: bool = False) -> bool:
        """Whether it answers, and holds what it must. It is resumed first if it does not run."""
        view = self._settled(known)
        if view is None:
            return False
        if view["runtime_state"] != "running":
            return self.resume(known) and self._answers(known, step=False)
        return self._absorbed(known, view) and self._answers(known, step=step)

    def save(self, known: Known, *, stop: bool = False) -> bool:
        states, count = known.states, known.count
        outcome = self.asking.do("save", "POST", f"/api/sessions/{known.id}/checkpoint", {"Stop": stop}, about=known.id)
        if outcome.ok:
            known.saved_as(outcome.response["checkpoint_id"], states, count)
        else:
            self._learn(known, states, count)
        return outcome.ok

    def resume(self, known: Known, checkpoint: str = "", *, once_answered: Callable[[], None] = lambda: None) -> bool:
        """From the head, or from the one named. True once it runs."""
        if not known.head:
            return False
        known.tried = checkpoint
        body = {"Checkpoint": checkpoint} if checkpoint else {}
        outcome = self.asking.do("resume", "POST", f"/api/sessions/{known.id}/resume", body, about=known.id, once_answered=once_answered)
        if not outcome.ok:
            known.tried = known.tried if outcome.operation_id else ""  # what was refused at once was not begun
            return False
        told = outcome.response
        if checkpoint and told["checkpoint_id"] != checkpoint:
            self.journal.finding("a resume went on from another checkpoint than the one named", session=known.id, told=told)
        self._note(known, known.goes_on(told["checkpoint_id"], told["execution_epoch"]))
        self.measured.resumed(outcome, self.house.way_of(outcome.operation_id))
        return True

    def kill(self, known: Known) -> bool:
        """SIGKILL its machine, then have it go on: from its head, or now and then from an older save."""
        killed = self.house.kill_machine(known.id)
        self.journal.write("kill", session=known.id, machines=killed)
        older = self.random.choice(sorted(known.saved)) if known.saved and self.random.random() < 0.25 else ""
        return bool(killed) and self.resume(known, older) and self._answers(known, step=False)

    def fork(self, known: Known, children: int) -> None:
        """Of what it holds now, or of one of its saves."""
        named = self.random.choice(sorted(known.saved)) if known.saved and self.random.random() < 0.5 else ""
        states, count = known.states, known.count
        body = {"Checkpoint": named} if named else {}
        outcome = self.asking.do("fork", "POST", f"/api/sessions/{known.id}/fork?n={children}", body, about=known.id)
        self._learn(known, states, count)
        if outcome.ok:
            for child in outcome.response:
                self._adopt(known, child["id"], child["checkpoint_id"], states if not named else known.saved[named])
        else:
            for child in self.house.children_of(known.id):
                if self.ledger.get(child) is None:
                    self._adopt(known, child, "", states if not named else known.saved[named])

    def move(self, known: Known) -> bool:
        """Save and stop it, and ask for its resume while the host that it was on takes no new work: where it goes is decided then."""
        host = self.house.host_of(known.id)
        if not self.save(known, stop=True):
            return False
        with self.house.draining(host) as no_more:
            return self.resume(known, once_answered=no_more) and self._answers(known, step=False)

    def moved_by_operator(self, known: Known) -> bool:
        """An operator asks for it: the save and the resume are the fleet's. It stays where it is if no other host has room by then."""
        states, count, at = known.states, known.count, self.journal.now()
        asked = outcome = self.operator.move(known.id)
        if asked.ok:
            outcome = self.asking.follow("move", asked.operation_id, about=known.id)
        else:
            self.asking.judge("move", asked, known.id, at)
        if outcome.ok:
            known.saved_as(outcome.response["checkpoint_id"], states, count)
        elif self._settled(known) is None:  # it may have been accepted, and its save published, all the same
            return False
        else:
            self._learn(known, states, count)
        arrived = self.look(known)
        if outcome.ok:
            event, facts = self.house.move_of(asked.operation_id)
            self.measured.moved_by_operator(event, facts)
            self.journal.write("moved", session=known.id, event=event, facts=facts, resume=self.house.resume_of_move(asked.operation_id))
        return arrived

    def park(self, known: Known) -> bool:
        return self.save(known, stop=True) and self.resume(known) and self._answers(known, step=False)

    def delete(self, known: Known) -> None:
        outcome = self.asking.do("delete", "DELETE", f"/api/sessions/{known.id}?force=1", about=known.id)
        known.deleted = outcome.ok or self._view(known) is None
        if known.deleted:
            known.owed.clear()

    def _settled(self, known: Known) -> dict[str, Any] | None:
        """The session once nothing is under way on it; None if it is not there, which is a finding, or stays busy past the bound."""
        deadline = time.monotonic() + self.bound_seconds
        while (view := self._view(known)) is not None:
            if view["operation"] is None and view["runtime_state"] in ("running", "parked", "failed", "recovery_required"):
                return view
            if time.monotonic() > deadline:
                self.journal.finding("a session is busy past the bound", session=known.id, view=view)
                return None
            time.sleep(_BUSY_SECONDS)
        self._note(known, "it was not deleted, and is gone")
        return None

    def _view(self, known: Known) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.asking.read(f"/api/v2/sessions/{known.id}")
        except Refused as refusal:
            if refusal.status != 404:
                self.journal.finding(f"a session could not be read: {refusal}", session=known.id)
            return None
        return found

    def _absorbed(self, known: Known, view: dict[str, Any]) -> bool:
        """Take note of an epoch that the fleet began in the owner's stead. False if what it went on from is not known."""
        if view["execution_epoch"] == known.epoch:
            return True
        if view["last_checkpoint_id"] not in known.saved:
            self._learn(known, known.states, known.count)
        wrong = known.goes_on(view["last_checkpoint_id"], view["execution_epoch"])
        self.journal.write("went on", session=known.id, checkpoint=known.head, epoch=known.epoch)
        self._note(known, wrong)
        return not wrong

    def _answers(self, known: Known, *, step: bool) -> bool:
        """Ask its program what it holds, after one more step or as it is, and judge the answer."""
        at, epoch = self.journal.now(), known.epoch
        number, token = known.next_step() if step else (0, "-")
        if step:
            known.asked(token)
        outcome = self._exec(known, guest.ask(uuid.uuid4().hex[:12], number, token))
        if not outcome.ok:
            return False
        said = guest.parsed(outcome.response["stdout"]) if outcome.response["exit_code"] == 0 else None
        view = self._view(known)
        if view is None or view["execution_epoch"] != epoch:
            return False  # its machine went while it was asked: whatever it said is nothing to judge
        if said is None:
            known.unanswered += 1
            if known.unanswered >= DEAD_AFTER:
                self._note(known, f"its program has not answered {known.unanswered} times: {outcome.response}")
            return False
        known.unanswered = 0
        wrong = known.heard(said, answered_step=step)
        self.measured.judged()
        self._note(known, wrong)
        if not wrong:
            self._paid(known, at)
        return not wrong

    def _paid(self, known: Known, asked_at: float) -> None:
        """What faults touched it before it was asked are over for it."""
        for fault, began in list(known.owed.items()):
            if began <= asked_at:
                del known.owed[fault]
                self.measured.recovered(fault, self.journal.now())

    def _exec(self, known: Known, command: str) -> Outcome:
        body = {"Cmd": command, "Timeout": guest.EXEC_SECONDS}
        return self.asking.do("exec", "POST", f"/api/sessions/{known.id}/exec", body, about=known.id)

    def _learn(self, known: Known, states: States, count: int) -> None:
        """A save whose end is not known, or that a fork made, may have published all the same: of what the session held then."""
        try:
            items = self.asking.read(f"/api/v2/sessions/{known.id}/checkpoints?limit=200")["items"]
        except Refused:
            return
        for row in reversed(items):  # the newest last
            if row["state"] == "valid" and row["id"] not in known.saved:
                known.saved_as(row["id"], states, count)

    def _adopt(self, parent: Known, child: str, checkpoint: str, states: States) -> None:
        count = 0  # the parent's at that save is not looked up: a child's count may only grow from here
        known = Known(child, states, begun=True, is_child=True)
        self._learn(known, states, count)
        if checkpoint and checkpoint not in known.saved:
            known.saved_as(checkpoint, states, count)
        self.journal.write("child", session=child, parent=parent.id, checkpoint=known.head)
        self.ledger.add(known)

    def _note(self, known: Known, wrong: str) -> None:
        if wrong:
            self.journal.finding(f"session {known.id[:8]}: {wrong}", session=known.id, host=self.house.host_of(known.id))


Act = Callable[[Acts, Known], object]
