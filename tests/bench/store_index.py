"""`./keepstate bench index`: memory and lookup cost of the dedup indexes, up to 10^8 units.

Synthetic units: random ids in packs of 4096. The lineage's index is measured up to 10^7 units, in a process of its own for each size; the
account's compact index up to 10^8, in one directory that grows, as an account does.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from checkpoints_app.store.compact_index import CompactIndex
from checkpoints_app.store.ids import Ids, type_ids
from checkpoints_app.store.index import UnitIndex
from tests.bench.report import Row, arguments, publish, row

METHOD = (
    "Random unit ids in packs of 4096 units; lookups of 1024 ids at a time, as a save does, 200 of each kind. Compact: packs are added in "
    "batches of 1024 packs (4.2 million units) with the merges that follow; the memory of a process that asks is what it holds beside the "
    "mapped files, whose pages the kernel may drop; cold: after it was asked to drop them. Each part in a process of its own."
)
PACK, BATCH, ASKED, TIMES = 4096, 1024, 1024, 200
LINEAGE, COMPACT = (10**6, 10**7), (10**6, 10**7, 10**8)
MIB = 1 << 20


def main() -> int:
    options = arguments(METHOD)
    rows = [one for units in LINEAGE for one in apart("lineage", units)]
    with tempfile.TemporaryDirectory(prefix="keepstate-bench-") as directory:
        for units in COMPACT:
            rows += [*apart("grow", units, directory), *apart("ask", units, directory)]
    return publish("index", METHOD, rows, options.json)


def packs(first: int, last: int) -> Iterator[tuple[str, Ids]]:
    for number in range(first, last):
        yield f"{number:064x}", ids_of(number)


def ids_of(number: int) -> Ids:
    made: Ids = np.random.default_rng(number).integers(0, 1 << 64, (PACK, 4), dtype=np.uint64).astype(type_ids)
    return made


def lineage(units: int) -> list[Row]:
    before = resident()
    index = UnitIndex(max_units=1 << 40)
    began = time.perf_counter()
    for pack_id, ids in packs(0, units // PACK):
        index.add_pack(pack_id, ids)
    built = time.perf_counter() - began
    held = resident() - before
    name = f"lineage index, {units:.0e} units"
    return [
        row(f"{name}: memory", "MiB", [held / MIB]),
        row(f"{name}: memory per unit", "B", [held / len(index)]),
        row(f"{name}: built, ids drawn included", "s", [built]),
        *lookups(name, index.lookup, units // PACK),
    ]


def grow(units: int, directory: Path) -> list[Row]:
    """Bring the compact index of the directory to that size."""
    index, adding = CompactIndex(directory), []
    for first in range(len(index.pack_ids()), units // PACK, BATCH):
        batch = list(packs(first, min(units // PACK, first + BATCH)))
        adding.append(timed(partial(index.add, batch)) / 1000)
    return [row(f"compact index, to {units:.0e} units: {BATCH} packs added, merges included", "s", adding)]


def ask(units: int, directory: Path) -> list[Row]:
    before = resident()
    opened = timed(lambda: CompactIndex(directory))
    index = CompactIndex(directory)
    name = f"compact index, {units:.0e} units"
    asked = lookups(name, index.candidates, units // PACK)
    held, count = resident() - before, len(index)
    files = list(directory.glob("*.run"))
    size = sum(file.stat().st_size for file in files)
    del index
    drop(files)
    index = CompactIndex(directory)
    cold = [timed(partial(index.candidates, ids_of(units + n)[:ASKED])) for n in range(20)]
    return [
        row(f"{name}: files", "MiB", [size / MIB]),
        row(f"{name}: bytes per unit", "B", [size / count]),
        row(f"{name}: memory beside the files", "MiB", [held / MIB]),
        row(f"{name}: number of files", "", [len(files)]),
        row(f"{name}: opened", "ms", [opened]),
        *asked,
        row(f"{name}: 1024 that are not, cold", "ms", cold),
    ]


def lookups(name: str, find: Callable[[Ids], object], packs_there: int) -> list[Row]:
    there = [timed(partial(find, ids_of(number * 7 % packs_there)[:ASKED])) for number in range(TIMES)]
    not_there = [timed(partial(find, ids_of(packs_there + number)[:ASKED])) for number in range(TIMES)]
    return [row(f"{name}: 1024 that are there", "ms", there), row(f"{name}: 1024 that are not", "ms", not_there)]


def timed(action: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def resident() -> int:
    """Bytes of this process that no file stands behind."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) << 10


def drop(files: list[Path]) -> None:
    for file in files:
        number = os.open(file, os.O_RDONLY)
        os.fsync(number)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(number)


def apart(part: str, units: int, *arguments: str) -> list[Row]:
    """The rows of one part, measured in a process of its own."""
    argv = [sys.executable, "-m", "tests.bench.store_index", part, str(units), *arguments]
    print(f"{part} {units:.0e}", flush=True)
    return [Row(**one) for one in json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)]


PARTS: Mapping[str, Callable[..., list[Row]]] = {"lineage": lineage, "grow": grow, "ask": ask}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in PARTS:
        print(json.dumps([vars(one) for one in PARTS[sys.argv[1]](int(sys.argv[2]), *map(Path, sys.argv[3:]))]))
        raise SystemExit(0)
    raise SystemExit(main())
