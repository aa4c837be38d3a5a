"""Units of one image out of their packs into a file. Nothing is written that was not opened, decompressed and compared with its id."""

import os

from checkpoints_app.store.backends import Backend
from checkpoints_app.store.errors import IntegrityError
from checkpoints_app.store.extents import Int64s
from checkpoints_app.store.generations import Generations, listed_generations
from checkpoints_app.store.ids import UNIT_BYTES
from checkpoints_app.store.names import object_key
from checkpoints_app.store.restore import PackReader
from checkpoints_app.store.seal import Kind
from workers.cache.caching import CachingBackend
from workers.lazy.plan import Plan


class Loader:
    """Any number of threads. `fd` is the target, as long as the image; it is written to and stays the caller's."""

    def __init__(self, plan: Plan, backend: Backend, fd: int, generations: Generations | None = None):
        following = generations or listed_generations(backend, plan.account_id)  # a daemon has no database to ask
        self._backend, self._account_id, self._length, self._fd = backend, plan.account_id, plan.length_bytes, fd
        self._readers = {
            pack_id: PackReader(backend, plan.keys, plan.account_id, index, following) for pack_id, index in plan.indexes.items()
        }

    def load(self, pack_id: str, sources: Int64s, targets: Int64s) -> None:
        """Units `sources` (ascending) of that pack to units `targets` of the image.

        What looks bad is read a second time, and then from the store itself, before it counts. IntegrityError, MissingObjectError,
        BackendError, OSError of the target; some of the units may then be written, each of them verified.
        """
        try:
            self._readers[pack_id].run(sources, targets, self._length, self._write)
        except IntegrityError:
            self._distrust(pack_id)
            self._readers[pack_id].run(sources, targets, self._length, self._write)

    def fetch(self, pack_id: str) -> None:
        """Have the whole pack on this host, where packs are kept on it at all. Raises the errors of `Backend.stream`."""
        if isinstance(self._backend, CachingBackend):
            self._backend.fill(self._key(pack_id))

    def is_here(self, pack_id: str) -> bool:
        """Whether the pack is on this host."""
        return not isinstance(self._backend, CachingBackend) or self._backend.cache.holds(self._key(pack_id))

    def _distrust(self, pack_id: str) -> None:
        if isinstance(self._backend, CachingBackend):
            self._backend.distrust(self._key(pack_id))

    def _key(self, pack_id: str) -> str:
        return object_key(self._account_id, Kind.PACK, pack_id, self._readers[pack_id].index.generation)

    def _write(self, first_unit: int, data: memoryview) -> None:
        offset = first_unit * UNIT_BYTES
        while data:
            done = os.pwrite(self._fd, data, offset)
            data, offset = data[done:], offset + done
