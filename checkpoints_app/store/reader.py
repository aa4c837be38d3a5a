"""Reading a checkpoint: manifest, pack indexes, roots, images. Whatever is not exactly what was written is refused."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from .backends.backend import Backend
from .errors import LocationError, StoreError
from .index import DEFAULT_MAX_UNITS, UnitIndex, UnitTable
from .keys import AccountKeys
from .manifest import FULL_EVERY, Manifest
from .manifest_codec import MAX_STORED_BYTES, Decoded, decode_manifest, resolve
from .names import object_key
from .packs import MAX_HEAD_BYTES, PackIndex, decode_head, pack_opener
from .roots import Gather
from .seal import Kind, Opener

PackIndexes = Mapping[str, PackIndex]


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


def load_pack_index(backend: Backend, keys: AccountKeys, account_id: str, pack_id: str) -> PackIndex:
    """What one pack holds; one read. IntegrityError, MissingObjectError, BackendError."""
    head = backend.head(object_key(account_id, Kind.PACK, pack_id), MAX_HEAD_BYTES)
    return decode_head(pack_opener(keys, account_id, pack_id), head.data, head.object_bytes)


def load_pack_indexes(
    backend: Backend, keys: AccountKeys, account_id: str, manifest: Manifest, *, threads: int = 2
) -> dict[str, PackIndex]:
    """Of every pack that the checkpoint needs; 32 bytes of memory per unit."""
    with ThreadPoolExecutor(threads, "pack-index") as pool:
        jobs = [pool.submit(load_pack_index, backend, keys, account_id, pack_id) for pack_id in manifest.referenced_packs]
        try:
            return {index.pack_id: index for index in [job.result() for job in jobs]}
        finally:
            pool.shutdown(cancel_futures=True)


def load_index(
    backend: Backend, keys: AccountKeys, account_id: str, manifest: Manifest | None, *, max_units: int = DEFAULT_MAX_UNITS
) -> UnitIndex:
    """The dedup index over a checkpoint's packs (empty for None), for a `CheckpointWriter`. StoreError if they exceed `max_units`."""
    index = UnitIndex(max_units)
    if manifest is not None:
        for pack in load_pack_indexes(backend, keys, account_id, manifest).values():
            if not index.add_pack(pack.pack_id, pack.ids):
                raise StoreError(f"the checkpoint's packs hold more than {max_units} units: raise max_units")
    return index


def verify_roots(
    backend: Backend, keys: AccountKeys, account_id: str, manifest: Manifest, *, indexes: PackIndexes | None = None
) -> PackIndexes:
    """Recompute the root of every image from the pack indexes; the checkpoint's digest was checked against the roots at load.

    IntegrityError if one differs. Returns the indexes, for `restore_image`. Reads no unit: what the units are is checked as they are read.
    """
    indexes = indexes if indexes is not None else load_pack_indexes(backend, keys, account_id, manifest)
    table = table_of(indexes)
    for name in manifest.images:
        verify_root(keys, account_id, manifest, name, table)
    return indexes


def table_of(indexes: PackIndexes) -> UnitTable:
    table = UnitTable()
    for pack in indexes.values():
        table.open_pack(pack.pack_id)
        table.extend(pack.ids)
    return table


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
