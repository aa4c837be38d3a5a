"""A checkpoint of memory alone in a store of its own, as a process of workers/lazy is told of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints_app.store import Backend, LocalBackend, Manifest, verify_roots
from checkpoints_app.store.ids import UNIT_BYTES
from checkpoints_app.store.names import object_key
from checkpoints_app.store.packs import PackIndex
from checkpoints_app.store.seal import Kind
from tests.store_kit import ACCOUNT, KEYS
from workers.lazy.plan import Plan, needed_indexes


def plan_of(backend: Backend, manifest: Manifest, *, first: Any = (), store: Any = None, **told: Any) -> Plan:
    """As a worker would make it: the roots are verified."""
    indexes = verify_roots(backend, KEYS, ACCOUNT, manifest)
    image = manifest.images["memory"]
    needed = needed_indexes(manifest.packs, image.locations, indexes)
    facts = store or {"kind": "local", "root": str(backend.root)} if isinstance(backend, LocalBackend) else store
    where = ACCOUNT, KEYS, facts or {}, manifest.packs, needed
    return Plan(*where, image.length_bytes, np.asarray(image.locations), np.asarray(first, np.int64), told)


def with_names(plan: Plan, directory: Path) -> Plan:
    """Where its file is made, and what it is called when it is whole."""
    return replace(plan, told={**plan.told, "target": str(directory / "tmp-{pid}-lazy"), "name": str(directory / "image")})


def pack_file(backend: LocalBackend, index: PackIndex) -> Path:
    (found,) = (backend.root / "objects").rglob(object_key(ACCOUNT, Kind.PACK, index.pack_id, index.generation).rpartition("/")[2])
    return found


def flip(path: Path, offset: int) -> None:
    """One bit of a file."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def flip_frame(backend: LocalBackend, plan: Plan, unit: int) -> None:
    """Damage the frame that this unit of the image comes out of."""
    location = int(plan.locations[unit])
    index = plan.indexes[plan.packs[location >> 16]]
    position = int(index.positions_of(np.array([location & 0xFFFF]))[0])
    frame = int(np.searchsorted(index.first_units, position, side="right")) - 1
    flip(pack_file(backend, index), int(index.offsets[frame]) + 5)


def units(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8).reshape(-1, UNIT_BYTES)
