"""`./keepstate bench control`: operations through API, PostgreSQL, Redis and a worker while an installation grows to 10^5 sessions."""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from keepstate_site.stack import RunningStack, commands, running, services
from tests.bench import control_bare
from tests.bench.control_caller import Caller
from tests.bench.report import Row, parser, publish, quantile, row
from tests.support.outside_data import remove_below

SESSIONS = (10**3, 10**4, 10**5)
#: So many clients, each with a session of its own, one request at a time; a host has two slots for boots, saves and resumes.
CLIENTS = 4
#: In this order in each round: what a client asks, and how many times.
PHASES = (("boot", 1), ("exec", 5), ("save", 3), ("park", 1), ("resume", 1), ("delete", 1))
KINDS = {"boot": "boot", "exec": "exec", "save": "checkpoint", "park": "checkpoint", "resume": "resume", "delete": "delete"}
#: Flat: at the largest size the median is at most so many times that at the smallest.
FLAT = 1.5
METHOD = (
    f"A whole stack with the fake hypervisor and a local store: web, one host's workers, control, beat, an embedded PostgreSQL that waits "
    f"for its disk, and Redis. {CLIENTS} clients on loopback, each with a session of its own and one request at a time, which is answered "
    f"when its operation has ended. Synthetic rows (tests/bench/api_rows.py) make the database that of 10^3, 10^4 and 10^5 sessions. "
    f"Operations a second: of all clients in a phase of one kind, one figure for each round. Dispatch: from accepted_at to started_at of "
    f"the operation's row, by the database's clock. The first round is not counted. Beside: a bare Celery task on the same Redis with "
    f"two slots, without rows, from its sending to its start (dispatch) and all at once (a second)."
)
ENVIRONMENT = {"KEEPSTATE_MACHINE_DRIVER": "fake", "KEEPSTATE_RATE_TOKEN": "0", "KEEPSTATE_RATE_ACCOUNT": "0"}


@dataclass
class Measured:
    """By phase: operations a second of each round, and milliseconds from accepted to started of each operation."""

    rates: dict[str, list[float]]
    dispatch: dict[str, list[float]]


def main() -> int:
    made = parser(METHOD, rounds=("rounds at each size", 10), bare=("bare Celery tasks beside", 300))
    made.add_argument("--scale", type=float, default=1.0, help="a share of each size, for a trial")
    options = made.parse_args()
    if not 0 < options.scale <= 1:
        made.error("--scale is more than 0 and at most 1.")
    for name in ("DATABASE_URL", "REDIS_URL", "CHECKPOINT_STORE_URL"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="keepstate-bench-") as directory:
        root = Path(directory) / "var"
        try:
            with running(root, env=ENVIRONMENT) as stack:
                sizes = [max(1, int(size * options.scale)) for size in SESSIONS]
                found = _at_each_size(stack, sizes, options.rounds)
                bare = control_bare.measure(_home(stack).redis_url, options.bare)
        finally:
            remove_below(Path(directory))
        return publish("control", METHOD, _rows(found, *bare), options.json)


def _home(stack: RunningStack) -> Any:
    home = services.find(stack.root).home
    assert home is not None
    return home


def _at_each_size(stack: RunningStack, sizes: list[int], rounds: int) -> dict[int, Measured]:
    found, there = {}, 0
    for size in sizes:
        if size > there:
            code = commands.run(stack.root, [sys.executable, "-m", "tests.bench.control_rows", str(there), str(size - 1)])
            if code:
                raise RuntimeError(f"rows of {size} sessions were not made (code {code})")
        there = max(there, size)
        print(f"{size} sessions are there, load {os.getloadavg()[0]:.1f}", flush=True)
        found[size] = _measure(stack, rounds)
    return found


def _measure(stack: RunningStack, rounds: int) -> Measured:
    found = Measured({name: [] for name, _ in PHASES}, {name: [] for name, _ in PHASES})
    with psycopg.connect(_home(stack).database_url, autocommit=True) as database:
        for number in range(rounds + 1):
            callers = [Caller(stack.url, stack.token) for _ in range(CLIENTS)]
            for name, times in PHASES:
                (begun,) = database.execute("SELECT clock_timestamp()").fetchone() or (None,)
                took = _together(callers, name, times)
                waits = _waits(database, stack.account_id, KINDS[name], begun)
                if len(waits) != CLIENTS * times:
                    raise RuntimeError(f"{name}: {len(waits)} operations of {CLIENTS * times} were found")
                if number:
                    found.rates[name].append(CLIENTS * times / took)
                    found.dispatch[name] += waits
    return found


def _together(callers: list[Caller], name: str, times: int) -> float:
    """Seconds until the last client has its last answer."""
    failed: list[Exception] = []

    def act(do: Callable[[], None]) -> None:
        try:
            for _ in range(times):
                do()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=act, args=(getattr(caller, name),)) for caller in callers]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return time.perf_counter() - began


def _waits(database: "psycopg.Connection[Any]", account_id: str, kind: str, since: Any) -> list[float]:
    """Milliseconds."""
    asked = (
        "SELECT extract(epoch FROM started_at - accepted_at) * 1000 FROM sessions_app_operation "
        "WHERE account_id = %s AND kind = %s AND accepted_at >= %s AND state = 'succeeded'"
    )
    return [float(wait) for (wait,) in database.execute(asked, (account_id, kind, since)).fetchall()]


def _rows(found: dict[int, Measured], bare_ms: list[float], bare_rate: float) -> list[Row]:
    bare = round(quantile(bare_ms, 0.5), 3)
    rows = []
    for size, measured in found.items():
        for name, _ in PHASES:
            rows.append(row(f"{name}, a second, {size} sessions", "1/s", measured.rates[name], bare_celery=round(bare_rate, 1)))
            rows.append(row(f"{name}, dispatch, {size} sessions", "ms", measured.dispatch[name], bare_celery=bare))
    smallest, largest = found[min(found)], found[max(found)]
    for name, _ in PHASES:
        waits = quantile(largest.dispatch[name], 0.5) / quantile(smallest.dispatch[name], 0.5)
        rows.append(row(f"{name}, dispatch, largest against smallest", "x", [waits], budget=FLAT))
        speed = quantile(smallest.rates[name], 0.5) / quantile(largest.rates[name], 0.5)
        rows.append(row(f"{name}, time of one, largest against smallest", "x", [speed], budget=FLAT))
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
