"""The files of a checkpoint on this host: from the cache if they are there and intact, else out of the store from verified units.

*cached*: every image is in the host cache; each is re-hashed and nothing is copied. *host*: at least one was made from packs that lie on
this host. *store*: at least one pack had to be fetched from elsewhere.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.db import connection

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import key, storage
from checkpoints_app.states import CheckpointState
from checkpoints_app.store import IntegrityError, Manifest, MissingObjectError
from sessions_app.models import Session
from workers.cache import files as cache
from workers.cache import store
from workers.cache.caching import CachingBackend
from workers.cache.evict import in_use
from workers.machine.driver import SavedState
from workers.restore import touched
from workers.restore.assemble import assemble_devices, assemble_disk
from workers.restore.memory import cached_memory, restored_memory
from workers.restore.source import Source, StoredContentBad, open_source, source_of

CACHED, HOST, STORE = "cached", "host", "store"


class StoredContentMissing(StoredContentBad):
    """An object is not there, and the store is. It may be on its way back: nothing is condemned for it but by the scrub."""


@dataclass(frozen=True)
class Assembled:
    saved: SavedState
    names: list[str]  # of the cached images, for the note that keeps them from eviction
    origin: str  # cached, host or store
    lazy: str  # the root of the image that its memory is served from while it streams in, or ''
    fetched_bytes: int | None  # that came from a store elsewhere; None where that is not known: a local store, or memory that streams in
    confirm: Callable[[], None]  # to be called before a virtual CPU runs; raises ImageDamaged


@contextmanager
def assembled(checkpoint: Checkpoint, check: Callable[[], None], *, lazily: bool) -> Iterator[Assembled]:
    """Images of a published checkpoint, whose every byte is verified before a virtual CPU can read it. `check` is called between the parts
    and may raise to stop the work. To be left when the machine's note names the images, or when nothing was started.

    Raises StoredContentBad, BackendError (also where the store as a whole is missing) or OSError (no room); nothing that was not verified
    has a name in the cache then.
    """
    wanted = names_of(checkpoint)
    found = {kind: cache.lookup(kind, name) for kind, name in wanted.items() if kind != cache.MEMORY}
    with ExitStack() as stack:
        stored = _Stored(stack, checkpoint, {kind: wanted[kind] for kind, path in found.items() if path is None})
        with _judging(checkpoint):
            memory = cached_memory(stack, wanted[cache.MEMORY]) or restored_memory(
                stack, wanted[cache.MEMORY], checkpoint.id, checkpoint.session.memory_bytes, stored.source, check, lazily=lazily
            )
            check()
            found |= stored.others()
        devices = found[cache.DEVICES]
        assert devices is not None
        saved = SavedState(memory.path, found.get(cache.DISK), devices)
        lazy = wanted[cache.MEMORY] if memory.lazy else ""
        fetched = None if lazy else stored.fetched_bytes()
        yield Assembled(saved, list(wanted.values()), stored.origin, lazy, fetched, memory.confirm)


class _Stored:
    """The checkpoint's source, opened once it is needed; from then on its other images are made beside the memory."""

    def __init__(self, stack: ExitStack, checkpoint: Checkpoint, missing: Mapping[str, str]):
        self._stack, self._checkpoint, self._missing = stack, checkpoint, missing
        self._source: Source | None = None
        self._others: Future[dict[str, Path | None]] | None = None
        self.origin = CACHED

    def source(self) -> Source:
        if self._source is None:
            self._source = open_source(self._checkpoint)
            self.origin = HOST if self._source.is_here() else STORE
            pool = self._stack.enter_context(ThreadPoolExecutor(1, "images"))
            self._others = pool.submit(_beside, self._source, self._missing)
        return self._source

    def fetched_bytes(self) -> int | None:
        """By this process, which fetches whole packs; what a helper reads of one that was not kept for want of room is not in it."""
        if self._source is None:
            return 0
        backend = self._source.backend
        return backend.fetched_bytes if isinstance(backend, CachingBackend) else None

    def others(self) -> dict[str, Path | None]:
        if self._missing:
            self.source()
        return self._others.result() if self._others is not None else {}


def _beside(source: Source, missing: Mapping[str, str]) -> dict[str, Path | None]:
    try:
        return {kind: _assemble(source, kind, name) for kind, name in missing.items()}
    finally:
        connection.close()  # the thread's own, if a pack moved meanwhile


def _assemble(source: Source, kind: str, name: str) -> Path:
    """An image that is neither large nor mapped: made here, under its name at return."""
    with cache.single_flight(kind, name):
        return cache.lookup(kind, name) or _make(source, kind, name)


def _make(source: Source, kind: str, name: str) -> Path:
    target = cache.temporary(kind, source.checkpoint.id)
    target.unlink(missing_ok=True)
    try:
        make = {cache.DISK: assemble_disk, cache.DEVICES: assemble_devices}[kind]
        make(target, source.backend, source.keys, source.checkpoint, source.manifest, source.indexes, storage.generations)
        return cache.join(kind, name, target)
    finally:
        target.unlink(missing_ok=True)


def assemble_disk_of(checkpoint: Checkpoint, manifest: Manifest) -> Path:
    """The disk of a checkpoint that has just been saved, as a resume would make it. Raises as `restore_image` does."""
    keys = key.keys_to_read(checkpoint.account_id)
    source = source_of(checkpoint, manifest, keys, store.backend())
    return _assemble(source, cache.DISK, disk_name(manifest.images["disk"].root, checkpoint.image_digest))


@contextmanager
def _judging(checkpoint: Checkpoint) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise StoredContentBad(str(error)) from error
    except MissingObjectError as error:
        storage.require_present(checkpoint.account_id)
        raise StoredContentMissing(f"{error}.") from error


def forget_images(session: Session) -> None:
    """Remove what this host has assembled of the session's checkpoints: its memory and its disk, in the clear.

    What another machine of this host was started from stays, and what another session holds as well: its resume may have looked it up
    already. Only a cache is touched: an image that is needed again is assembled again.
    """
    kept = in_use() | _held_by_others(session)
    for checkpoint in session.checkpoints.exclude(content_digest=""):
        for kind, name in names_of(checkpoint).items():
            if name not in kept:
                cache.drop(kind, name)
        touched.forget(checkpoint.id)


def _held_by_others(session: Session) -> set[str]:
    """Names of the images of other sessions' checkpoints that share a manifest with one of this session: forks, and what was forked."""
    mine = session.checkpoints.exclude(manifest_id="").values("manifest_id")
    others = Checkpoint.objects.filter(manifest_edges__manifest_id__in=mine, state=CheckpointState.PUBLISHED).exclude(session=session)
    return {name for checkpoint in others.distinct() for name in names_of(checkpoint).values()}


def names_of(checkpoint: Checkpoint) -> dict[str, str]:
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
