"""The product's store as a program, so that it can be measured beside others: `python -m tests.bench.ours save|restore ...`.

It prints one JSON object: seconds are of the work alone, without the interpreter's start, which a worker has long behind it.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from checkpoints_app.store import (
    UNIT_BYTES,
    CheckpointWriter,
    LocalBackend,
    SecretKey,
    derive_keys,
    load_index,
    load_manifest,
    restore_image,
    verify_roots,
)

KEYS = derive_keys(SecretKey(bytes(range(32))))
ACCOUNT = "bench"
FACTS = {"pin": "bench", "watermarks": {"events": 1}}
IMAGES = ("memory", "disk")
BATCH = 2048

Numbers = npt.NDArray[np.int64]


def save(store: str, moment: str, parent_id: str, at_most: str = "") -> dict[str, Any]:
    """A first save reads the data of the sparse images, any other what the moment says was written (`at_most` so many units of it)."""
    left = int(at_most or 1 << 40)
    backend = LocalBackend(store)
    began = time.perf_counter()
    parent = load_manifest(backend, KEYS, ACCOUNT, parent_id) if parent_id else None
    index = load_index(backend, KEYS, ACCOUNT, parent)
    loaded = time.perf_counter()
    with CheckpointWriter(backend, KEYS, ACCOUNT, parent, index) as writer:
        for name in IMAGES:
            image = Path(moment) / f"{name}.raw"
            numbers = np.load(Path(moment) / f"{name}.written.npy")[:left]
            left -= len(numbers)
            writer.add_image(name, image.stat().st_size, None, _pages(image, numbers))
        added = time.perf_counter()
        plan = writer.finish(FACTS)
    done = time.perf_counter()
    return {
        "manifest": plan.manifest.manifest_id,
        "seconds": done - began,
        "parts": {"load": loaded - began, "add": added - loaded, "finish": done - added},
        "written": plan.written_bytes,
        "unique": plan.unique_bytes,
        "stored": plan.stored_bytes,
        "manifest_bytes": plan.manifest_bytes,
    }


def restore(store: str, manifest_id: str, target: str, threads: str) -> dict[str, Any]:
    backend = LocalBackend(store)
    began = time.perf_counter()
    manifest = load_manifest(backend, KEYS, ACCOUNT, manifest_id)
    indexes = verify_roots(backend, KEYS, ACCOUNT, manifest)
    for name in IMAGES:
        number = os.open(Path(target) / f"{name}.raw", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.ftruncate(number, manifest.images[name].length_bytes)

        def sink(unit: int, data: memoryview, number: int = number) -> None:
            if os.pwrite(number, data, unit * UNIT_BYTES) != len(data):
                raise OSError("short write")

        restore_image(backend, KEYS, ACCOUNT, manifest, name, sink, threads=int(threads), indexes=indexes)
        os.close(number)
    return {"seconds": time.perf_counter() - began}


def _pages(image: Path, numbers: Numbers) -> Iterator[tuple[Numbers, memoryview]]:
    buffer = memoryview(bytearray(BATCH * UNIT_BYTES))
    with open(image, "rb", buffering=0) as file:
        for start in range(0, len(numbers), BATCH):
            part = numbers[start : start + BATCH]
            for first, last in pairwise([0, *(np.flatnonzero(np.diff(part) != 1) + 1).tolist(), len(part)]):
                view = buffer[first * UNIT_BYTES : last * UNIT_BYTES]
                if os.preadv(file.fileno(), [view], int(part[first]) * UNIT_BYTES) != len(view):
                    raise OSError("short read")
            yield part, buffer[: len(part) * UNIT_BYTES]


VERBS: Mapping[str, Callable[..., dict[str, Any]]] = {"save": save, "restore": restore}

if __name__ == "__main__":
    print(json.dumps(VERBS[sys.argv[1]](*sys.argv[2:])))
