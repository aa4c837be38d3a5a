"""What the bench of control asks of a stack at one size, again and again, and what it finds."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.bench.control_caller import Caller

#: So many clients at once, each with a session of its own, one request at a time; a host has two slots for boots, saves and resumes.
CLIENTS = 4
#: In this order in each round: what a client asks, how many times, and the kind of the operations that come of it.
PHASES = (
    ("boot", 1, "boot"),
    ("exec", 5, "exec"),
    ("save", 3, "checkpoint"),
    ("park", 1, "checkpoint"),
    ("resume", 1, "resume"),
    ("delete", 1, "delete"),
)
NAMES = tuple(name for name, _, _ in PHASES)
#: A round in which an operation fails is told and not counted; with more of them there is nothing to measure.
MOST_FAILED = 3

_TIMES = """
SELECT extract(epoch FROM started_at - accepted_at) * 1000, extract(epoch FROM finished_at - accepted_at) * 1000
FROM sessions_app_operation WHERE account_id = %s AND kind = %s AND accepted_at >= %s AND state = 'succeeded'
"""


class RoundFailed(Exception):
    """One of a round's operations did not succeed."""


def _lists() -> dict[str, list[float]]:
    return defaultdict(list)


@dataclass
class Found:
    """At one size, by phase. Milliseconds of each operation; `rates`: operations a second of all clients, one figure for each round."""

    dispatch: dict[str, list[float]] = field(default_factory=_lists)
    succeeded: dict[str, list[float]] = field(default_factory=_lists)
    answered: dict[str, list[float]] = field(default_factory=_lists)
    dispatch_together: dict[str, list[float]] = field(default_factory=_lists)
    rates: dict[str, list[float]] = field(default_factory=_lists)
    failed: list[str] = field(default_factory=list)


@dataclass
class Load:
    """`database`: its clock is the only one that times dispatch."""

    url: str
    token: str
    account_id: str
    database: "psycopg.Connection[Any]"

    def measure(self, found: Found, seconds: float) -> None:
        """Rounds of one client and of several, by turns, for so long, two of each at least. The first of each is not counted.

        What is found is in `found` as soon as its round has ended. Raises RuntimeError once too many rounds have failed.
        """
        deadline, counted = time.monotonic() + seconds, 0
        warm = Found()
        while counted < 2 or time.monotonic() < deadline:
            into = found if counted else warm
            try:
                self._alone(into)
                self._together(into)
            except RoundFailed as error:
                found.failed.append(str(error))
                print(f"a round is not counted: {error}", flush=True)
                if len(found.failed) > MOST_FAILED:
                    raise RuntimeError(f"{len(found.failed)} rounds have failed") from error
            counted += 1

    def _alone(self, found: Found) -> None:
        for name, answered, times, _ in self._round(1):
            found.answered[name] += answered
            found.dispatch[name] += [dispatch for dispatch, _ in times]
            found.succeeded[name] += [succeeded for _, succeeded in times]

    def _together(self, found: Found) -> None:
        done, took = 0, 0.0
        for name, _, times, seconds in self._round(CLIENTS):
            found.dispatch_together[name] += [dispatch for dispatch, _ in times]
            found.rates[name].append(len(times) / seconds)
            done, took = done + len(times), took + seconds
        found.rates["all kinds"].append(done / took)

    def _round(self, clients: int) -> list[tuple[str, list[float], list[tuple[float, float]], float]]:
        """Of each phase: its name, milliseconds to each answer, those of each operation (to its start, to its end), and seconds in all.

        Raises RoundFailed; its sessions are deleted then.
        """
        callers = [Caller(self.url, self.token) for _ in range(clients)]
        found = []
        try:
            for name, count, kind in PHASES:
                (begun,) = self.database.execute("SELECT clock_timestamp()").fetchone() or (None,)
                answered, seconds = _each(callers, name, count)
                times = [(float(start), float(end)) for start, end in self.database.execute(_TIMES, (self.account_id, kind, begun))]
                if len(times) != clients * count:
                    raise RoundFailed(f"{name}: {len(times)} operations of {clients * count} were found")
                found.append((name, answered, times, seconds))
        except RoundFailed:
            for caller in callers:
                with suppress(OSError, RuntimeError):
                    caller.delete()
            raise
        return found


def _each(callers: Sequence[Caller], name: str, times: int) -> tuple[list[float], float]:
    """Milliseconds to each answer, and seconds until the last client has its last one. Raises RoundFailed."""
    answered: list[float] = []
    failed: list[str] = []

    def act(do: Callable[[], None]) -> None:
        try:
            for _ in range(times):
                began = time.perf_counter()
                do()
                answered.append((time.perf_counter() - began) * 1000)
        except Exception as error:
            failed.append(f"{name}: {error}")

    threads = [threading.Thread(target=act, args=(getattr(caller, name),), daemon=True) for caller in callers]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise RoundFailed(failed[0])
    return answered, time.perf_counter() - began
