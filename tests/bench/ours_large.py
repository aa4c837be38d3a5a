"""The store with an image larger than memory allows, as programs whose peak is watched: `python -m tests.bench.ours_large VERB ...`.

The content is made up on the way: pages of one number each, 16 MiB at random places of the image. Bytes per unit do not matter here,
the number of units does.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints_app.store import (
    UNIT_BYTES,
    CheckpointWriter,
    LocalBackend,
    load_index,
    load_manifest,
    restore_image,
    spill,
    verify_roots,
)
from tests.bench.ours import ACCOUNT, FACTS, KEYS, Numbers

_BATCH = 2048
_STRETCH = 4096  # units


def save(store: str, image_gib: str, data_gib: str, parent_id: str, seed: str) -> dict[str, Any]:
    backend = _backend(store)
    parent = load_manifest(backend, KEYS, ACCOUNT, parent_id) if parent_id else None
    units = int(image_gib) << 18
    with CheckpointWriter(backend, KEYS, ACCOUNT, parent, load_index(backend, KEYS, ACCOUNT, parent)) as writer:
        writer.add_image("memory", units * UNIT_BYTES, None, _pages(units, round(float(data_gib) * (1 << 18)), int(seed)))
        plan = writer.finish(FACTS)
    return {"manifest": plan.manifest.manifest_id, "unique": plan.unique_bytes}


def restore(store: str, manifest_id: str) -> dict[str, Any]:
    """Read and verified whole, and not kept."""
    backend = _backend(store)
    manifest = load_manifest(backend, KEYS, ACCOUNT, manifest_id)
    indexes = verify_roots(backend, KEYS, ACCOUNT, manifest)
    sizes: list[int] = []
    restore_image(backend, KEYS, ACCOUNT, manifest, "memory", lambda unit, data: sizes.append(len(data)), indexes=indexes)
    return {"restored": sum(sizes)}


def _backend(store: str) -> LocalBackend:
    spill.use_directory(Path(store) / "spill")
    return LocalBackend(store)


def _pages(units: int, written: int, seed: int) -> Iterator[tuple[Numbers, memoryview]]:
    stretches = np.random.default_rng(seed).choice(units // _STRETCH, -(-written // _STRETCH), replace=False)
    buffer = np.zeros((_BATCH, UNIT_BYTES // 8), np.uint64)
    for stretch in np.sort(stretches).tolist():
        for first in range(stretch * _STRETCH, (stretch + 1) * _STRETCH, _BATCH):
            numbers = np.arange(first, first + _BATCH)
            buffer[:, 0], buffer[:, 1] = numbers + 1, seed
            yield numbers, buffer.reshape(-1).view(np.uint8).data


VERBS: Mapping[str, Callable[..., dict[str, Any]]] = {"save": save, "restore": restore}

if __name__ == "__main__":
    print(json.dumps(VERBS[sys.argv[1]](*sys.argv[2:])))
