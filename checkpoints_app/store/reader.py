"""Reading a checkpoint: manifest, pack indexes, roots, images. Whatever is not exactly what was written is refused."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from .backends.backend import Backend
from .errors import LocationError, MissingObjectError, StoreError
from .extents import PACK_UNITS
from .generations import MOVES, Generations, listed_generations
from .index import DEFAULT_MAX_UNITS, UnitIndex, UnitTable
from .keys import AccountKeys
from .manifest import FULL_EVERY, Manifest
from .manifest_codec import MAX_STORED_BYTES, Decoded, decode_manifest, resolve
from .names import object_key
from .packs import MAX_HEAD_BYTES, PackIndex, decode_head, pack_opener
from .roots import Gather
from .seal import Kind, Opener
from .threads import thread_pool

_BATCH_PACKS = 64  # tables read at a time: 9 MiB


@dataclass(frozen=True, eq=False)
class PackIndexes(Mapping[str, PackIndex]):
    """The tables of a checkpoint's packs. Their ids are views into `units`, which may lie outside of memory."""

    packs: Mapping[str, PackIndex]
    units: UnitTable

    def __getitem__(self, pack_id: str) -> PackIndex:
        return self.packs[pack_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.packs)

    def __len__(self) -> int:
        return len(self.packs)


def load_manifest(backend: Backend, keys: AccountKeys, account_id: str, manifest_id: str) -> Manifest:
    """The manifest with its maps resolved; reads at most 8 objects. IntegrityError, MissingObjectError, BackendError.

    Its parts are authentic and fit together; that its packs hold what it says is for `verify_roots` or `restore_image`.
    """
    line: list[tuple[Opener, Decoded]] = []
    wanted: str | None = manifest_id
    while wanted is not None:
        opener = Opener(keys, Kind.MANIFEST, account_id, wanted)
        if len(line) == FULL_EVERY:
            raise opener.refusal("it stands in too long a line of manifests")
        decoded = decode_manifest(opener, _read_manifest(backend, account_id, opener))
        line.append((opener, decoded))
        wanted = decoded.parent
    manifest = resolve(*line.pop(), None)
    while line:
        manifest = resolve(*line.pop(), manifest)
    return manifest


def load_pack_index(backend: Backend, keys: AccountKeys, account_id: str, pack_id: str, generation: int = 0) -> PackIndex:
    """What one pack holds; one read. IntegrityError, MissingObjectError, BackendError."""
    head = backend.head(object_key(account_id, Kind.PACK, pack_id, generation), MAX_HEAD_BYTES)
    return decode_head(pack_opener(keys, account_id, pack_id, head.data, generation), head.data, head.object_bytes)


def load_indexes_of(
    backend: Backend,
    keys: AccountKeys,
    account_id: str,
    pack_ids: Sequence[str],
    *,
    generations: Generations | None = None,
    threads: int = 2,
) -> dict[str, PackIndex]:
    """Of these packs, each at the generation that `generations` says; without it at the first, or else at the newest that is listed.

    A pack that moves on between the answer and the read is asked for again.
    """
    known = dict(generations(pack_ids)) if generations else {}
    found: dict[str, PackIndex] = {}
    with thread_pool(threads, "pack-index") as pool:
        try:
            for _ in range(MOVES):
                wanted = [pack_id for pack_id in pack_ids if pack_id not in found]
                jobs = {one: pool.submit(load_pack_index, backend, keys, account_id, one, known.get(one, 0)) for one in wanted}
                missing = _collect(jobs, found)
                if not missing:
                    break
                known |= _moved_to(backend, account_id, known, missing, generations)
        finally:
            pool.shutdown(cancel_futures=True)
    return {pack_id: found[pack_id] for pack_id in pack_ids}


def _collect(jobs: Mapping[str, Future[PackIndex]], found: dict[str, PackIndex]) -> dict[str, MissingObjectError]:
    """Adds to `found`; returns the packs whose object was not there."""
    missing = {}
    for pack_id, job in jobs.items():
        try:
            found[pack_id] = job.result()
        except MissingObjectError as error:
            missing[pack_id] = error
    return missing


def _moved_to(
    backend: Backend,
    account_id: str,
    known: Mapping[str, int],
    missing: Mapping[str, MissingObjectError],
    generations: Generations | None,
) -> dict[str, int]:
    """Where those packs are now. MissingObjectError for one that did not move."""
    now = (generations or listed_generations(backend, account_id))(list(missing))
    for pack_id, error in missing.items():
        if now.get(pack_id, 0) == known.get(pack_id, 0):
            raise error
    return dict(now)


def load_pack_indexes(
    backend: Backend,
    keys: AccountKeys,
    account_id: str,
    manifest: Manifest,
    *,
    generations: Generations | None = None,
    threads: int = 2,
) -> PackIndexes:
    """Of every pack that the checkpoint needs."""
    needed = manifest.referenced_packs
    packs: dict[str, PackIndex] = {}
    units = UnitTable(len(needed) * PACK_UNITS)
    for pack in _tables(backend, keys, account_id, needed, generations, threads):
        units.open_pack(pack.pack_id)
        units.extend(pack.ids_by_number)
        whole = pack.ids is pack.ids_by_number
        packs[pack.pack_id] = replace(pack, ids=units.ids_of(pack.pack_id)) if whole else pack
        units.release()
    return PackIndexes(packs, units)


def load_index(
    backend: Backend,
    keys: AccountKeys,
    account_id: str,
    manifest: Manifest | None,
    *,
    max_units: int = DEFAULT_MAX_UNITS,
    generations: Generations | None = None,
) -> UnitIndex:
    """The dedup index over a checkpoint's packs (empty for None), for a `CheckpointWriter`. StoreError if they exceed `max_units`."""
    index = UnitIndex(max_units)
    for pack in _tables(backend, keys, account_id, manifest.referenced_packs if manifest else (), generations, 2):
        if not index.add_pack(pack.pack_id, pack.ids_by_number):
            raise StoreError(f"the checkpoint's packs hold more than {max_units} units: raise max_units")
        index.release()
    return index


def _tables(
    backend: Backend, keys: AccountKeys, account_id: str, pack_ids: Sequence[str], generations: Generations | None, threads: int
) -> Iterator[PackIndex]:
    for start in range(0, len(pack_ids), _BATCH_PACKS):
        batch = pack_ids[start : start + _BATCH_PACKS]
        yield from load_indexes_of(backend, keys, account_id, batch, generations=generations, threads=threads).values()


def verify_roots(
    backend: Backend,
    keys: AccountKeys,
    account_id: str,
    manifest: Manifest,
    *,
    indexes: PackIndexes | None = None,
    generations: Generations | None = None,
) -> PackIndexes:
    """Recompute the root of every image from the pack indexes; the checkpoint's digest was checked against the roots at load.

    IntegrityError if one differs. Returns the indexes, for `restore_image`. Reads no unit: what the units are is checked as they are read.
    """
    if indexes is None:
        indexes = load_pack_indexes(backend, keys, account_id, manifest, generations=generations)
    for name in manifest.images:
        verify_root(keys, account_id, manifest, name, indexes.units)
    return indexes


def verify_root(keys: AccountKeys, account_id: str, manifest: Manifest, name: str, table: UnitTable) -> None:
    """IntegrityError unless the units that the table lists at the image's locations have the image's root."""
    image = manifest.images[name]
    opener = Opener(keys, Kind.MANIFEST, account_id, manifest.manifest_id)
    try:
        root = Gather(manifest.packs, [table]).root(image.length_bytes, image.base, image.locations)
    except LocationError:
        raise opener.refusal(f"its {name} lies in places that its packs do not have") from None
    if root != image.root:
        raise opener.refusal(f"the units of its {name} are not those that its root says")


def _read_manifest(backend: Backend, account_id: str, opener: Opener) -> bytes:
    stored = bytearray()
    for chunk in backend.stream(object_key(account_id, Kind.MANIFEST, opener.object_id)):
        stored += chunk
        if len(stored) > MAX_STORED_BYTES:
            raise opener.refusal("its size does not fit")
    return bytes(stored)
