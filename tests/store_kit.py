"""What the store's tests share: an account, and saving and restoring images that are numpy arrays of shape (units, 4096)."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from checkpoints_app.store import (
    UNIT_BYTES,
    Backend,
    CheckpointWriter,
    Manifest,
    PublishedPlan,
    SecretKey,
    derive_keys,
    load_index,
    load_manifest,
    restore_image,
    verify_roots,
)

Content = npt.NDArray[np.uint8]
ACCOUNT = "acct-1"
KEYS = derive_keys(SecretKey(bytes(range(32))))
FACTS: dict[str, Any] = {"pin": "pin-1", "watermarks": {"event": 7}, "session": "s-1"}


def quick_directory() -> tempfile.TemporaryDirectory[str]:
    """Where a sync costs nothing, if there is such a place: for tests that save hundreds of times."""
    shared_memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=shared_memory if shared_memory.is_dir() else None)


def content(units: int, seed: int = 0) -> Content:
    """Units that are all different: half of each is random, half repeats."""
    made = np.random.default_rng(seed).integers(0, 256, (units, UNIT_BYTES), dtype=np.uint8)
    made[:, UNIT_BYTES // 2 :] = made[:, :1]
    return made


def pages(image: Content, numbers: Any, batch: int = 300) -> Iterator[tuple[npt.NDArray[np.int64], bytes]]:
    numbers = np.asarray(numbers, np.int64)
    for start in range(0, len(numbers), batch):
        part = numbers[start : start + batch]
        yield part, image[part].tobytes()


def save(
    backend: Backend,
    parent: Manifest | None,
    memory: Content,
    numbers: Any = None,
    *,
    facts: Mapping[str, Any] = FACTS,
    **options: Any,
) -> PublishedPlan:
    """A checkpoint of memory alone; `numbers` are the written units (all, if None)."""
    index = load_index(backend, KEYS, ACCOUNT, parent)
    with CheckpointWriter(backend, KEYS, ACCOUNT, parent, index, **options) as writer:
        written = np.arange(len(memory)) if numbers is None else numbers
        writer.add_image("memory", len(memory) * UNIT_BYTES, None, pages(memory, written))
        return writer.finish(facts)


def restore(backend: Backend, manifest_id: str, name: str = "memory", *, over: Content | None = None, keys: Any = KEYS) -> Content:
    """The image from the store alone, over a base image where it has one."""
    manifest = load_manifest(backend, keys, ACCOUNT, manifest_id)
    indexes = verify_roots(backend, keys, ACCOUNT, manifest)
    image = manifest.images[name]
    target = np.zeros(len(image.locations) * UNIT_BYTES, np.uint8)
    if over is not None:
        target[:] = over.reshape(-1)
        for start, count in zip(*image.zero_runs(), strict=True):
            target[start * UNIT_BYTES : (start + count) * UNIT_BYTES] = 0

    def sink(unit: int, data: memoryview) -> None:
        target[unit * UNIT_BYTES : unit * UNIT_BYTES + len(data)] = data

    restore_image(backend, keys, ACCOUNT, manifest, name, sink, indexes=indexes)
    return target.reshape(-1, UNIT_BYTES)
