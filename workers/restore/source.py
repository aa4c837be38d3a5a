"""A published checkpoint as its store tells it: authentic, its roots recomputed, ready to be read by this process or another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import key, storage
from checkpoints_app.store import AccountKeys, Backend, Manifest, load_manifest, load_pack_indexes, object_key, verify_roots
from checkpoints_app.store.reader import PackIndexes
from checkpoints_app.store.seal import Kind
from workers import crash
from workers.cache import store
from workers.cache.caching import CachingBackend
from workers.lazy.plan import Plan, needed_indexes
from workers.restore.touched import units_to_have_first

TABLES_AT_ONCE = 6  # of packs that are elsewhere: each is one round trip


class StoredContentBad(Exception):
    """Stored content is not what was saved. The text names the object, never its content."""


@dataclass(frozen=True, eq=False)
class Source:
    checkpoint: Checkpoint
    keys: AccountKeys
    backend: Backend
    manifest: Manifest
    indexes: PackIndexes

    def plan(self, told: Mapping[str, Any]) -> Plan:
        """What another process needs to read the memory image; `told` besides. Holds keys and, for a store elsewhere, its credentials."""
        image, account_id = self.manifest.images["memory"], self.checkpoint.account_id
        indexes = needed_indexes(self.manifest.packs, image.locations, self.indexes)
        first = units_to_have_first(self.checkpoint.id, self.manifest)
        where = account_id, self.keys, store.where(), self.manifest.packs, indexes
        return Plan(*where, image.length_bytes, np.asarray(image.locations), first, told)

    def is_here(self) -> bool:
        """Whether every pack lies on this host."""
        if not isinstance(self.backend, CachingBackend):
            return True
        keys = (object_key(self.checkpoint.account_id, Kind.PACK, one.pack_id, one.generation) for one in self.indexes.values())
        return all(map(self.backend.cache.holds, keys))


def open_source(checkpoint: Checkpoint) -> Source:
    """Raises StoredContentBad, IntegrityError, MissingObjectError, BackendError."""
    keys, backend = key.keys_to_read(checkpoint.account_id), store.backend()
    manifest = load_manifest(backend, keys, checkpoint.account_id, checkpoint.manifest_id)
    if manifest.digest != checkpoint.content_digest:
        raise StoredContentBad(f"the manifest {checkpoint.manifest_id} is not of this checkpoint.")
    return source_of(checkpoint, manifest, keys, backend)


def source_of(checkpoint: Checkpoint, manifest: Manifest, keys: AccountKeys, backend: Backend) -> Source:
    """Of a manifest that is known already. Raises as `open_source`."""
    threads = TABLES_AT_ONCE if isinstance(backend, CachingBackend) else 2
    where = backend, keys, checkpoint.account_id, manifest
    indexes = load_pack_indexes(*where, generations=storage.generations, threads=threads)
    verify_roots(*where, indexes=indexes)
    crash.reach("verified")
    return Source(checkpoint, keys, backend, manifest, indexes)
