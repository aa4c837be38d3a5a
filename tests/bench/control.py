"""`./keepstate bench control`: operations through API, PostgreSQL, Redis and a worker while an installation grows to 10^5 sessions."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from keepstate_site.stack import RunningStack, commands, running, services
from tests.bench import control_bare, control_rows
from tests.bench.control_load import CLIENTS, NAMES, Found, Load
from tests.bench.report import Row, parser, publish, quantile, row, unmeasured, write
from tests.gates.fleet import processes
from tests.gates.room import IMAGES, STATIC
from tests.support.outside_data import remove_below

SESSIONS = (10**3, 10**4, 10**5)
#: Flat: at the largest size the median is at most so many times that at the smallest.
FLAT = 1.5
METHOD = (
    "A whole stack with the fake hypervisor and a local store: web, one host's workers (two slots), control, beat, an embedded "
    "PostgreSQL that waits for its disk, and Redis; clients on loopback. One database that grows by synthetic rows "
    f"(tests/bench/api_rows.py): of each session {control_rows.CHECKPOINTS} checkpoints, a pack, {control_rows.EVENTS} events, "
    f"{control_rows.OPERATIONS} operations. At each size rounds of one client and of {CLIENTS} by turns; each client has a session of "
    "its own and one request at a time, which is answered when its operation has ended. Dispatch: from accepted_at (the begin of the "
    "transaction that accepts) to started_at (the worker's claim) of the operation's row, by the database's clock; to its success: to "
    f"finished_at; answered: by the client's clock. These are of one client; with {CLIENTS} dispatch has the wait for a slot in it. A "
    f"second: operations of {CLIENTS} clients, one figure for each round. The first round of each size is not counted. Beside, before "
    "the rows: a commit of one row, an answer of /healthz, and a bare Celery task on the same Redis with two slots, from its sending "
    "to its start and all at once."
)
ENVIRONMENT = {
    "KEEPSTATE_MACHINE_DRIVER": "fake",
    "KEEPSTATE_RATE_TOKEN": "0",
    "KEEPSTATE_RATE_ACCOUNT": "0",
    "KEEPSTATE_IMAGES": str(IMAGES),
    "KEEPSTATE_STATIC": str(STATIC),
}


def main() -> int:
    made = parser(METHOD, seconds=("seconds of measuring at each size", 150), bare=("measurements of each bare part beside", 200))
    made.add_argument("--scale", type=float, default=1.0, help="a share of each size, for a trial")
    options = made.parse_args()
    if not 0 < options.scale <= 1:
        made.error("--scale is more than 0 and at most 1.")
    for name in ("DATABASE_URL", "REDIS_URL", "CHECKPOINT_STORE_URL"):
        os.environ.pop(name, None)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit ends the bench, not its report
    bench = Bench([max(1, int(size * options.scale)) for size in SESSIONS], options.json)
    with tempfile.TemporaryDirectory(prefix="keepstate-bench-") as directory:
        try:
            bench.run(Path(directory) / "var", options.seconds, options.bare)
        finally:
            processes.kill_all(lambda: processes.of_stack(Path(directory) / "var"))  # machines outlive a stack
            remove_below(Path(directory))
    return publish("control", METHOD, bench.rows(), options.json, **bench.details()) or int(bool(bench.ended))


class Bench:
    """What is found, as it is found. `ended`: why it is not all that was to be measured; else empty."""

    def __init__(self, sizes: Sequence[int], file: Path | None) -> None:
        self.found = {size: Found() for size in sizes}
        self.bare: list[Row] = []
        self.seconds: dict[str, float] = {}
        self.ended = "It goes on."
        self._file = file

    def run(self, root: Path, seconds: float, bare: int) -> None:
        """Raises nothing for what goes wrong on the way: that is told, beside what was measured until then."""
        try:
            with running(root, env=ENVIRONMENT) as stack:
                self._measure(stack, seconds, bare)
            self.ended = ""
        except KeyboardInterrupt:
            self.ended = "It was interrupted."
        except Exception as error:
            self.ended = f"It failed: {error!r}"
        if self.ended:
            print(f"{self.ended} What was not measured is null.", flush=True)

    def _measure(self, stack: RunningStack, seconds: float, bare: int) -> None:
        """Written whenever something is measured, and before the stack ends, which takes its time."""
        home = services.find(stack.root).home
        assert home is not None
        try:
            with psycopg.connect(home.database_url, autocommit=True) as database:
                self.bare = control_bare.measure(stack.url, database, home.redis_url, bare)
                load = Load(stack.url, stack.token, stack.account_id, database)
                there = 0
                for size, found in self.found.items():
                    self._write()
                    self._at_size(stack, load, size, there, seconds)
                    there = max(there, size)
                    _tell(found)
        finally:
            self._write()

    def _at_size(self, stack: RunningStack, load: Load, size: int, there: int, seconds: float) -> None:
        began = time.monotonic()
        _grow(stack, there, size)
        grown = time.monotonic()
        self.seconds[f"preparing {size}"] = round(grown - began, 1)
        print(f"{size} sessions are there, load {os.getloadavg()[0]:.1f}", flush=True)
        try:
            load.measure(self.found[size], seconds)
        finally:
            self.seconds[f"measuring {size}"] = round(time.monotonic() - grown, 1)

    def _write(self) -> None:
        if self._file is not None:
            write("control", METHOD, self.rows(), self._file, **self.details())

    def rows(self) -> list[Row]:
        return [*self.bare, *(one for size, found in self.found.items() for one in _of_size(size, found)), *_flat(self.found)]

    def details(self) -> dict[str, Any]:
        """`ended`: null for a bench that is through. `failed`: rounds that are not counted, and why, by size."""
        failed = {str(size): found.failed for size, found in self.found.items() if found.failed}
        return {"ended": self.ended or None, "failed": failed, "seconds": self.seconds, "load": round(os.getloadavg()[0], 1)}


def _grow(stack: RunningStack, there: int, size: int) -> None:
    if size > there:
        code = commands.run(stack.root, [sys.executable, "-m", "tests.bench.control_rows", str(there), str(size - 1)])
        if code:
            raise RuntimeError(f"rows of {size} sessions were not made (code {code})")


def _tell(found: Found) -> None:
    for name in filter(found.rates.get, NAMES):
        dispatch, rate = quantile(found.dispatch[name], 0.5), quantile(found.rates[name], 0.5)
        print(f"  {name:8} dispatch {dispatch:6.1f} ms, {rate:6.1f} a second", flush=True)


def _row(name: str, unit: str, values: Sequence[float], budget: float | None = None) -> Row:
    return row(name, unit, values, budget=budget) if values else unmeasured(name, unit, budget=budget)


def _of_size(size: int, found: Found) -> list[Row]:
    rows = [_row(f"all kinds, a second, {size} sessions", "1/s", found.rates["all kinds"])]
    for name in NAMES:
        rows += [
            _row(f"{name}, dispatch, {size} sessions", "ms", found.dispatch[name]),
            _row(f"{name}, to its success, {size} sessions", "ms", found.succeeded[name]),
            _row(f"{name}, answered, {size} sessions", "ms", found.answered[name]),
            _row(f"{name}, a second, {size} sessions", "1/s", found.rates[name]),
            _row(f"{name}, dispatch with {CLIENTS} clients, {size} sessions", "ms", found.dispatch_together[name]),
        ]
    return rows


def _flat(found: Mapping[int, Found]) -> list[Row]:
    smallest, largest = found[min(found)], found[max(found)]
    rows = []
    for name in NAMES:
        waits = _times(largest.dispatch[name], smallest.dispatch[name])
        rows.append(_row(f"{name}, dispatch, largest against smallest", "x", waits, FLAT))
    for name in ("all kinds", *NAMES):
        slower = _times(smallest.rates[name], largest.rates[name])
        rows.append(_row(f"{name}, time of one, largest against smallest", "x", slower, FLAT))
    return rows


def _times(dividend: Sequence[float], divisor: Sequence[float]) -> list[float]:
    """The one median by the other; none where one was not measured."""
    return [quantile(dividend, 0.5) / quantile(divisor, 0.5)] if dividend and divisor else []


if __name__ == "__main__":
    raise SystemExit(main())
