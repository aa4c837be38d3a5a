"""The files of a checkpoint on this host: from the cache if they are there and intact, else assembled from verified units.

*hot*: every image is in the host cache; each is re-hashed before it is used and nothing is copied. *stored*: at least one was assembled
from the store.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import key, storage
from checkpoints_app.store import AccountKeys, IntegrityError, Manifest, MissingObjectError, load_manifest, verify_roots
from workers import crash
from workers.cache import files as cache
from workers.machine.driver import SavedState
from workers.restore.assemble import assemble_devices, assemble_disk, assemble_memory


class StoredContentBad(Exception):
    """Stored content is not what was saved. The text names the object, never its content."""


class StoredContentMissing(StoredContentBad):
    """An object is not there, and the store is. It may be on its way back: nothing is condemned for it but by the scrub."""


@dataclass(frozen=True)
class Assembled:
    saved: SavedState
    names: list[str]  # of the cached images, for the note that keeps them from eviction
    origin: str  # hot or stored


def assemble(checkpoint: Checkpoint, check: Callable[[], None]) -> Assembled:
    """Verified images of a published checkpoint. `check` is called between the parts and may raise to stop the work.

    Raises StoredContentBad, BackendError (also where the store as a whole is missing) or OSError (no room); nothing that was not verified
    has a name in the cache then.
    """
    wanted = cache_names(checkpoint)
    found = {kind: cache.lookup(kind, name) for kind, name in wanted.items()}
    origin = "hot"
    if None in found.values():
        origin = "stored"
        try:
            found |= _from_store(checkpoint, {kind: wanted[kind] for kind, path in found.items() if path is None}, check)
        except IntegrityError as error:
            raise StoredContentBad(str(error)) from error
        except MissingObjectError as error:
            storage.require_present(checkpoint.account_id)
            raise StoredContentMissing(f"{error}.") from error
    memory, devices = found[cache.MEMORY], found[cache.DEVICES]
    assert memory is not None
    assert devices is not None
    return Assembled(SavedState(memory, found.get(cache.DISK), devices), list(wanted.values()), origin)


def cache_names(checkpoint: Checkpoint) -> dict[str, str]:
    """The names in the cache of a published checkpoint's images, by kind."""
    names = {cache.DEVICES: checkpoint.content_digest, cache.MEMORY: checkpoint.memory_root}
    if checkpoint.disk_root:
        names[cache.DISK] = disk_name(checkpoint.disk_root, checkpoint.image_digest)
    return names


def disk_name(root: str, image_digest: str) -> str:
    """An assembled disk lies over its image by path, so both are in its name."""
    return f"{root}-{image_digest[:16]}"


def disk_root(name: str) -> str:
    return name.partition("-")[0]


def _from_store(checkpoint: Checkpoint, missing: dict[str, str], check: Callable[[], None]) -> dict[str, Path | None]:
    keys, backend = key.keys_to_read(checkpoint.account_id), storage.backend()
    manifest = load_manifest(backend, keys, checkpoint.account_id, checkpoint.manifest_id)
    if manifest.digest != checkpoint.content_digest:
        raise StoredContentBad(f"the manifest {checkpoint.manifest_id} is not of this checkpoint.")
    return assemble_missing(checkpoint, manifest, missing, check)


def assemble_missing(
    checkpoint: Checkpoint, manifest: Manifest, missing: dict[str, str], check: Callable[[], None]
) -> dict[str, Path | None]:
    """Assemble {kind: cache name} from the store and give each its name in the cache. Raises as `restore_image` does."""
    keys, backend = key.keys_to_read(checkpoint.account_id), storage.backend()
    indexes = verify_roots(backend, keys, checkpoint.account_id, manifest, generations=storage.generations)
    crash.reach("verified")
    made: dict[str, Path | None] = {}
    for kind, name in missing.items():
        check()
        with cache.single_flight(kind, name):
            made[kind] = cache.lookup(kind, name) or _make(checkpoint, kind, name, keys, manifest, indexes)
    return made


def _make(checkpoint: Checkpoint, kind: str, name: str, keys: AccountKeys, manifest: Manifest, indexes: object) -> Path:
    target = cache.temporary(kind, checkpoint.id)
    target.unlink(missing_ok=True)
    try:
        _ASSEMBLERS[kind](target, storage.backend(), keys, checkpoint, manifest, indexes, storage.generations)
        return cache.join(kind, name, target)
    finally:
        target.unlink(missing_ok=True)


_ASSEMBLERS = {cache.MEMORY: assemble_memory, cache.DISK: assemble_disk, cache.DEVICES: assemble_devices}
