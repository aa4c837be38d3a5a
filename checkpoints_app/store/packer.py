"""New units into packs, with bounded memory: one pack is filled while others are compressed, sealed, verified and staged by threads."""

import queue
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from . import packs
from .backends.backend import Batch, Step
from .extents import PACK_UNITS, UNIT_BITS, Int64s, Locations
from .ids import UNIT_BYTES, Ids
from .index import UnitIndex
from .keys import AccountKeys
from .names import object_key
from .pages import Units
from .seal import Kind, Sealer
from .threads import thread_pool


@dataclass(frozen=True, eq=False)
class StoredPack:
    """A pack that a save has made. Sizes in bytes."""

    pack_id: str
    stored_bytes: int
    unit_count: int

    @property
    def plain_bytes(self) -> int:
        return self.unit_count * UNIT_BYTES


@dataclass(eq=False)
class _Filling:
    """The pack that new units go into."""

    sealer: Sealer
    buffer: Units
    ordinal: int
    used: int = 0


class Packer:
    """Used by one thread. Holds threads+1 buffers of 16 MiB, and of each pack in the making its stored form."""

    def __init__(
        self, keys: AccountKeys, account_id: str, batch: Batch, register: Callable[[str], int], *, step: Step, threads: int
    ) -> None:
        self.index = UnitIndex(max_units=1 << 62)  # what this save has stored: only its own, gone with it if it fails
        self._keys, self._account_id, self._batch, self._step = keys, account_id, batch, step
        self._register = register  # a new pack's id to its ordinal in the manifest's table
        self._pool = thread_pool(threads, "packer")
        self._jobs: list[Future[StoredPack]] = []
        self._checked = 0  # so many jobs are known to have succeeded
        self._buffers: queue.SimpleQueue[Units] = queue.SimpleQueue()
        for _ in range(threads + 1):
            self._buffers.put(np.empty((PACK_UNITS, UNIT_BYTES), np.uint8))  # touched only as far as it is filled
        self._filling: _Filling | None = None

    def add(self, units: Units, rows: Int64s, ids: Ids) -> Locations:
        """Store `units[rows]`, whose ids are `ids`; returns their locations. Raises what a pack before this one failed with."""
        locations = np.empty(len(rows), np.int64)
        done = 0
        while done < len(rows):
            filling = self._filling or self._begin()
            start = filling.used
            take = min(len(rows) - done, PACK_UNITS - start)
            np.take(units, rows[done : done + take], axis=0, out=filling.buffer[start : start + take], mode="clip")
            self.index.extend(ids[done : done + take])
            locations[done : done + take] = (filling.ordinal << UNIT_BITS) | np.arange(start, start + take)
            filling.used += take
            done += take
            if filling.used == PACK_UNITS:
                self._submit(filling)
        return locations

    def finish(self) -> tuple[StoredPack, ...]:
        """Every pack, verified and staged in the batch."""
        if self._filling:
            self._submit(self._filling)
        stored = tuple(job.result() for job in self._jobs)
        self._pool.shutdown()
        return stored

    def abort(self) -> None:
        """Returns when no thread works any more. Idempotent."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self) -> "_Filling":
        buffer = self._buffers.get()
        while self._checked < len(self._jobs) and self._jobs[self._checked].done():
            self._jobs[self._checked].result()
            self._checked += 1
        sealer = Sealer(self._keys, Kind.PACK, self._account_id)
        self.index.open_pack(sealer.object_id)
        self._filling = _Filling(sealer, buffer, self._register(sealer.object_id))
        return self._filling

    def _submit(self, filling: "_Filling") -> None:
        ids = self.index.ids_at(np.arange(len(self.index) - filling.used, len(self.index)))
        self._jobs.append(self._pool.submit(self._make, filling.sealer, filling.buffer, ids))
        self._filling = None

    def _make(self, sealer: Sealer, buffer: Units, ids: Ids) -> StoredPack:
        try:
            encoded = packs.encode_pack(sealer, buffer[: len(ids)].reshape(-1).data, ids)
        finally:
            self._buffers.put(buffer)
        opener = packs.pack_opener(self._keys, self._account_id, sealer.object_id)
        packs.verify_encoded(opener, self._keys.id_key.reveal(), encoded)
        self._step("pack_verified")
        stored = self._batch.put(object_key(self._account_id, Kind.PACK, sealer.object_id), encoded.chunks)
        self._step("pack_written")
        return StoredPack(sealer.object_id, stored, len(ids))
