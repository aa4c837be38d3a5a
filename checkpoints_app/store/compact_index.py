"""Which pack may hold a unit, for a whole account: 12 bytes per unit on disk, memory-mapped, rebuilt from pack tables at need.

Files of sorted runs in one directory of the host: 64-bit prefixes of unit ids, and for each the pack (its place in the file's list). A
hit is a hint: the pack's own table decides, so a lost, stale or damaged file costs time or a second copy of a unit, never a wrong one.
Prefixes are of keyed ids: without the account's key they say nothing about content.

Runs of like size are merged, up to 16 million units (a second's work), so that 10^8 units lie in about ten files. One process writes at a
time (a lock); readers map files that never change, and a merged file that they still map lives on until they let go.
"""

import fcntl
import os
import secrets
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from . import spill
from .ids import Ids

MAGIC = b"KSINDX\r\n"
VERSION = 1
HEADER = struct.Struct("<8sHHIQ")  # magic, version, zero, packs, units: 24 bytes, so that the columns are aligned
PACK_ID_BYTES = 32
MERGE_BELOW = 1 << 20  # smaller runs are merged whatever the others' sizes
MERGE_UP_TO = 1 << 24
_RESIDENT_UNITS = 1 << 20  # of a run that is larger nothing stays in memory between two questions
_BUCKETS = 256  # a merge holds one bucket of prefixes in memory

Prefixes = npt.NDArray[np.uint64]
Packs = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Run:
    """One mapped file. `prefixes` ascend; `packs` has the place in `pack_ids` of each."""

    path: Path
    pack_ids: tuple[str, ...]
    prefixes: Prefixes
    packs: Packs

    def candidates(self, wanted: Prefixes) -> Packs:
        """Places of packs that may hold units with these ascending prefixes: one per prefix that is here."""
        if len(self.prefixes) == 0:
            return np.empty(0, np.uint32)
        at = np.searchsorted(self.prefixes, wanted)
        at[at == len(self.prefixes)] = 0
        found: Packs = self.packs[at[self.prefixes[at] == wanted]]
        if len(self.prefixes) > _RESIDENT_UNITS:
            spill.release(self.prefixes)
            spill.release(self.packs)
        return found


class CompactIndex:
    """The runs that a directory holds when it is opened; `add` makes new ones. A file that is not whole is as if it were not there."""

    def __init__(self, directory: Path):
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._runs = _opened(directory)

    def __len__(self) -> int:
        """Entries: a unit that lies in several packs has several."""
        return sum(len(run.prefixes) for run in self._runs)

    def pack_ids(self) -> set[str]:
        """The packs that it knows. Of an account's packs those that are missing here are to be added, to make it complete."""
        return {pack_id for run in self._runs for pack_id in run.pack_ids}

    def candidates(self, ids: Ids) -> list[str]:
        """Packs that may hold some of these units, each once, those that may hold most first."""
        wanted = np.unique(ids[:, 0])
        found: dict[str, int] = {}
        for run in self._runs:
            places, counts = np.unique(run.candidates(wanted), return_counts=True)
            for place, count in zip(places.tolist(), counts.tolist(), strict=True):
                found[run.pack_ids[place]] = found.get(run.pack_ids[place], 0) + count
        return sorted(found, key=lambda pack_id: -found[pack_id])

    def add(self, packs: Iterable[tuple[str, Ids]]) -> None:
        """Learn packs and their units' ids (rows of zeros are units that a pack does not have). Packs that it knows are left out.

        Memory: 12 bytes per unit given, and 1/256 of the units of what is merged. Killed at any moment, each pack is known or is not.
        BlockingIOError, and nothing learned, while another process writes.
        """
        with self._alone():
            known = self.pack_ids()
            fresh = [(pack_id, ids[ids.any(axis=1), 0]) for pack_id, ids in packs if pack_id not in known]
            if not fresh:
                return
            prefixes = np.concatenate([prefix for _, prefix in fresh])
            places = np.repeat(np.arange(len(fresh), dtype=np.uint32), [len(prefix) for _, prefix in fresh])
            order = np.argsort(prefixes)
            name = tuple(pack_id for pack_id, _ in fresh)
            self._runs.append(self._write(name, len(order), iter([(prefixes[order], places[order])])))
            self._merge()

    def forget(self, pack_ids: set[str]) -> None:
        """Drop packs that are gone, to save their room. Nothing depends on it. BlockingIOError while another process writes."""
        with self._alone():
            for run in [run for run in self._runs if pack_ids.intersection(run.pack_ids)]:
                self._replace([run], pack_ids)

    def _replaced(self, run: Run) -> bool:
        """A newer run has all its packs, or it has none: its writer died before it could remove it."""
        newer = self._runs[self._runs.index(run) + 1 :]
        return any(set(run.pack_ids) <= set(other.pack_ids) for other in newer) or len(run.prefixes) == 0

    def _drop(self, run: Run) -> None:
        self._runs.remove(run)
        run.path.unlink(missing_ok=True)

    def _merge(self) -> None:
        """The newest run with the one before it, as long as that is less than twice its size, or both are small, and the sum not large."""
        while len(self._runs) > 1:
            before, newest = self._runs[-2:]
            total = len(before.prefixes) + len(newest.prefixes)
            if total > MERGE_UP_TO or (len(before.prefixes) >= 2 * len(newest.prefixes) and total > MERGE_BELOW):
                return
            self._replace([before, newest], set())

    def _replace(self, old: list[Run], gone: set[str]) -> None:
        """One run in place of these, the newest, written before they are removed: a death between leaves entries twice for a while."""
        kept = [[pack_id for pack_id in run.pack_ids if pack_id not in gone] for run in old]
        renumbered, first = [], 0
        for run, mine in zip(old, kept, strict=True):
            places = {pack_id: first + place for place, pack_id in enumerate(mine)}
            renumbered.append(np.array([places.get(pack_id, -1) for pack_id in run.pack_ids], np.int64))
            first += len(mine)
        merged = self._write(tuple(one for mine in kept for one in mine), None, _merged(old, renumbered))
        self._runs.append(merged)
        for run in [*old, *([merged] if len(merged.prefixes) == 0 else [])]:
            self._drop(run)

    def _write(self, pack_ids: tuple[str, ...], units: int | None, parts: Iterator[tuple[Prefixes, Packs]]) -> Run:
        """A new file, named when whole. It is not synced: after a power loss it may be short, and is then left out."""
        path = self._directory / f"{self._next():016x}-{secrets.token_hex(4)}.run"
        making, side = path.with_suffix(".new"), path.with_suffix(".packs")
        written = 0
        with open(making, "xb") as out, open(side, "x+b") as packs:
            out.write(HEADER.pack(MAGIC, VERSION, 0, len(pack_ids), units or 0) + b"".join(map(bytes.fromhex, pack_ids)))
            for prefixes, places in parts:
                out.write(np.ascontiguousarray(prefixes).data)
                packs.write(np.ascontiguousarray(places, np.uint32).data)
                written += len(prefixes)
            packs.flush()
            packs.seek(0)
            while data := packs.read(1 << 20):
                out.write(data)
            out.seek(0)
            out.write(HEADER.pack(MAGIC, VERSION, 0, len(pack_ids), written))
        side.unlink()
        making.rename(path)
        run = _open(path)
        if run is None:
            raise OSError(f"{path} is not what was written to it")
        return run

    def _next(self) -> int:
        """Names ascend in the order of the runs, oldest first."""
        return 1 + max((int(run.path.name[:16], 16) for run in self._runs), default=0)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        lock = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for pattern in ("*.new", "*.packs"):
                for left in self._directory.glob(pattern):
                    left.unlink(missing_ok=True)
            self._runs = _opened(self._directory)  # with what another process has written meanwhile
            for run in [run for run in self._runs if self._replaced(run)]:
                self._drop(run)
            yield
        finally:
            os.close(lock)


def _merged(runs: list[Run], renumbered: list[npt.NDArray[np.int64]]) -> Iterator[tuple[Prefixes, Packs]]:
    """Bucket by bucket of the prefixes' range, so that memory stays bounded."""
    edges = (np.arange(1, _BUCKETS, dtype=np.uint64) << np.uint64(56)).tolist()
    bounds = [[0, *np.searchsorted(run.prefixes, np.array(edges, np.uint64)).tolist(), len(run.prefixes)] for run in runs]
    for bucket in range(_BUCKETS):
        parts = [slice(bound[bucket], bound[bucket + 1]) for bound in bounds]
        prefixes = np.concatenate([run.prefixes[part] for run, part in zip(runs, parts, strict=True)])
        places = np.concatenate([names[run.packs[part]] for run, names, part in zip(runs, renumbered, parts, strict=True)])
        kept = np.flatnonzero(places >= 0)
        order = kept[np.argsort(prefixes[kept], kind="stable")]
        yield prefixes[order], places[order].astype(np.uint32)


def _opened(directory: Path) -> list[Run]:
    return [run for path in sorted(directory.glob("*.run")) if (run := _open(path)) is not None]


def _open(path: Path) -> Run | None:
    """None for a file that is not a whole run of this version, or that another process has merged away.

    What is mapped is the opened file, never the name again: it may be gone between.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(HEADER.size)
            magic, version, _, packs, units = HEADER.unpack(head)
            columns = HEADER.size + packs * PACK_ID_BYTES
            if (magic, version) != (MAGIC, VERSION) or os.fstat(file.fileno()).st_size != columns + units * 12:
                return None
            names = file.read(packs * PACK_ID_BYTES)
            pack_ids = tuple(names[at : at + PACK_ID_BYTES].hex() for at in range(0, len(names), PACK_ID_BYTES))
            if units == 0:
                return Run(path, pack_ids, np.empty(0, np.uint64), np.empty(0, np.uint32))
            prefixes: Prefixes = np.memmap(file, np.uint64, "r", columns, (units,))
            return Run(path, pack_ids, prefixes, np.memmap(file, np.uint32, "r", columns + units * 8, (units,)))
    except (OSError, struct.error):
        return None
