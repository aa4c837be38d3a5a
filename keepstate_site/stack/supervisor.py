"""Start processes in order, keep them running, stop them in the reverse order.

Our own instead of honcho: that one ends everything when one process ends and knows neither readiness nor order, and the
difference between "workers die with the supervisor" and "machines do not" must be exact. One thread, one loop; every wait moves output.
"""

import selectors
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from keepstate_site.stack.child import Child, Spec
from keepstate_site.stack.errors import Refused, StackError
from keepstate_site.stack.output import Log

TICK_SECONDS = 0.05
IDLE_SECONDS = 0.25
FIRST_DELAY, LONGEST_DELAY = 0.1, 30.0
HEALTHY_SECONDS = 60.0  # a process that lived so long starts its back-off anew
HURRY_SECONDS = 2.0  # what remains of each deadline after a second signal


class Supervisor:
    def __init__(self, logs: Path, say: Callable[[str], None], *, echo: bool = False):
        self.logs, self.say, self.echo = logs, say, echo
        self.phases: list[list[Child]] = []
        self.signals = 0
        self.refused: list[str] = []  # of each process that has ended for good, what it said last
        self.selector = selectors.DefaultSelector()

    def catch_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self.signals += 1

    def start(self, specs: Sequence[Spec]) -> None:
        """Start a phase at once and return when each is ready. On failure raises StackError; what runs stays for `stop` to end."""
        phase = [Child(spec, Log(spec.name, self.logs, echo=self.echo)) for spec in specs]
        self.phases.append(phase)
        for child in phase:
            self._launch(child)
        for child in phase:
            self._await_ready(child)

    def _launch(self, child: Child) -> None:
        child.start()
        self.selector.register(child.output, selectors.EVENT_READ, (child, child.output))

    def _await_ready(self, child: Child) -> None:
        deadline = child.started + child.spec.ready_seconds
        while not child.spec.ready():
            if not child.alive:
                code = child.collect()
                self.pump(0)
                kind = Refused if code in child.spec.final_codes else StackError
                raise kind(f"{child.spec.name} ended with code {code} before it was ready.\n{self._tail(child)}")
            if time.monotonic() > deadline:
                raise StackError(f"{child.spec.name} was not ready after {child.spec.ready_seconds:.0f} s.\n{self._tail(child)}")
            if self.signals:
                raise StackError(f"Interrupted while {child.spec.name} was starting.")
            self.pump(TICK_SECONDS)

    def _tail(self, child: Child) -> str:
        lines = "\n".join(f"    {line}" for line in child.log.tail) or "    (it printed nothing)"
        return f"  Its last lines, of {child.log.path}:\n{lines}"

    def pump(self, seconds: float) -> None:
        """Move output for at most that long; returns early once something was moved."""
        for key, _ in self.selector.select(seconds):
            child, output = key.data
            if not child.pump(output):
                self.selector.unregister(output)
                output.close()

    def run_until(self, done: Callable[[], bool]) -> None:
        """Keep everything running until a signal comes or `done` is true. What ends for good stays ended, and is in `refused`."""
        while not self.signals and not done():
            self.pump(IDLE_SECONDS)
            for phase in self.phases:
                for child in phase:
                    self._revive(child)

    def _revive(self, child: Child) -> None:
        now = time.monotonic()
        if child.alive or child.over:
            return
        if child.restart_at is None and child.collect() in child.spec.final_codes:
            self._let_end(child)
        elif child.restart_at is None:
            child.delay = FIRST_DELAY if now - child.started > HEALTHY_SECONDS else min(max(child.delay * 2, FIRST_DELAY), LONGEST_DELAY)
            child.restart_at = now + child.delay
            self.say(f"{child.spec.name} ended with code {child.collect()}; it starts again in {child.delay:.1f} s (log: {child.log.path})")
        elif now >= child.restart_at:
            self._launch(child)

    def _let_end(self, child: Child) -> None:
        child.over = True
        self.pump(0)  # its last words
        self.refused.append(f"{child.spec.name} was refused: {_last_words(child)}")
        self.say(f"{self.refused[-1]} It is not started again (log: {child.log.path})")

    def stop(self) -> None:
        """End the phases, last first, each within its deadline; then SIGKILL what is left of it."""
        already = self.signals
        for phase in reversed(self.phases):
            running = [child for child in phase if child.process]
            for child in running:
                child.send(child.spec.stop_signal)
            begun = time.monotonic()
            while any(self._still_stopping(child, begun, hurry=self.signals > max(already, 1)) for child in running):
                self.pump(TICK_SECONDS)
            for child in running:
                if child.alive:
                    self.say(f"{child.spec.name} did not stop in time and is killed")
                child.collect()
        self.phases.clear()
        self.pump(0)

    def _still_stopping(self, child: Child, begun: float, *, hurry: bool) -> bool:
        limit = min(child.spec.stop_seconds, HURRY_SECONDS) if hurry else child.spec.stop_seconds
        return child.alive and time.monotonic() - begun < limit


def _last_words(child: Child) -> str:
    """Why a command of Django's ended, or else the last line that it printed."""
    mark = "CommandError: "
    told = [line.removeprefix(mark) for line in child.log.tail if line.startswith(mark)]
    return (told or list(child.log.tail) or ["it printed nothing."])[-1]
