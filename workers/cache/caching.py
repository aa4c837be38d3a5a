"""A backend whose packs are also on this host: reads look here first, what is written or fetched whole stays."""

import threading
from collections.abc import Iterable, Iterator

from checkpoints_app.store.backends import Backend, Batch
from checkpoints_app.store.backends.backend import Chunk, Head, Listed, Step, no_step
from workers.cache.packs import PackCache, is_pack


class CachingBackend:
    """See `Backend`; what is not a pack goes straight to `store`. For restoring and saving: an integrity sweep reads the store itself."""

    def __init__(self, store: Backend, cache: PackCache):
        self.store, self.cache = store, cache
        self._fetched = 0
        self._counting = threading.Lock()

    @property
    def fetched_bytes(self) -> int:
        """What has come from the store through this one, as it lies there."""
        return self._fetched

    def _count(self, size: int) -> None:
        with self._counting:
            self._fetched += size

    def fill(self, key: str) -> None:
        """Have the whole pack here before it is read in many places. Where there is no room it is read from the store as it is needed."""
        self.cache.fill(key, self)

    def distrust(self, key: str) -> bool:
        """A reader refused what was read of this pack: drop it. False if it was the store itself that was read."""
        return self.cache.drop(key)

    def batch(self, step: Step = no_step) -> Batch:
        return _CachingBatch(self.store.batch(step), self.cache)

    def put_if_absent(self, key: str, chunks: Iterable[Chunk]) -> int:
        return self.store.put_if_absent(key, chunks)

    def head(self, key: str, max_bytes: int) -> Head:
        found = self.cache.head(key, max_bytes) if is_pack(key) else None
        if found is None:
            found = self.store.head(key, max_bytes)
            self._count(len(found.data))
        return found

    def read(self, key: str, offset: int, length: int) -> bytes:
        found = self.cache.read(key, offset, length) if is_pack(key) else None
        if found is None:
            found = self.store.read(key, offset, length)
            self._count(len(found))
        return found

    def stream(self, key: str, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        for chunk in self.store.stream(key, chunk_bytes):
            self._count(len(chunk))
            yield chunk

    def size(self, key: str) -> int:
        return self.store.size(key)

    def list(self, prefix: str) -> Iterator[Listed]:
        return self.store.list(prefix)

    def delete(self, key: str) -> bool:
        self.cache.drop(key)
        return self.store.delete(key)


class _CachingBatch:
    """What the store's batch has taken in is kept at once, as a pack never changes; a batch that is given up takes its packs along."""

    def __init__(self, batch: Batch, cache: PackCache):
        self._batch, self._cache = batch, cache
        self._kept: list[str] = []

    def put(self, key: str, chunks: Iterable[Chunk]) -> int:
        parts = list(chunks)
        written = self._batch.put(key, parts)
        if is_pack(key) and self._cache.keep(key, parts):
            self._kept.append(key)
        return written

    def publish(self) -> None:
        self._batch.publish()
        self._kept = []

    def discard(self) -> None:
        self._batch.discard()
        kept, self._kept = self._kept, []
        for key in kept:
            self._cache.drop(key)
