"""One image out of the store: memory as a sparse file, a disk as a qcow2 over its base image, the devices as they were.

Each unit is verified before it is written (`restore_image`). Failure leaves a partial target, which the caller removes.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints_app.models import Checkpoint
from checkpoints_app.store import UNIT_BYTES, AccountKeys, Backend, ImageMap, Manifest, restore_image
from checkpoints_app.store.generations import Generations
from workers.guest.image import load_image
from workers.host.identity import images_directory
from workers.machine.qemu.qcow2 import write_overlay

_READ_UNITS = 1024


def assemble_memory(
    target: Path,
    backend: Backend,
    keys: AccountKeys,
    checkpoint: Checkpoint,
    manifest: Manifest,
    indexes: Any,
    generations: Generations | None = None,
) -> None:
    _plain(target, backend, keys, checkpoint, manifest, indexes, "memory", generations)


def assemble_devices(
    target: Path,
    backend: Backend,
    keys: AccountKeys,
    checkpoint: Checkpoint,
    manifest: Manifest,
    indexes: Any,
    generations: Generations | None = None,
) -> None:
    _plain(target, backend, keys, checkpoint, manifest, indexes, "devices", generations)


def assemble_disk(
    target: Path,
    backend: Backend,
    keys: AccountKeys,
    checkpoint: Checkpoint,
    manifest: Manifest,
    indexes: Any,
    generations: Generations | None = None,
) -> None:
    """The held units arrive in any order and qcow2 is written in one: they are laid side by side in a scratch file first."""
    image = manifest.images["disk"]
    base = load_image(images_directory() / checkpoint.image_digest).disk
    assert base is not None
    held = np.flatnonzero(image.locations >= 0)
    scratch = target.with_name(target.name + "-units")
    fd = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.unlink(scratch)

        def place(first: int, data: memoryview) -> None:
            _write(fd, data, int(np.searchsorted(held, first)) * UNIT_BYTES)

        restore_image(backend, keys, checkpoint.account_id, manifest, "disk", place, indexes=indexes, generations=generations)
        write_overlay(target, image.length_bytes, base, _ascending(fd, image))
    finally:
        os.close(fd)


def _plain(
    target: Path,
    backend: Backend,
    keys: AccountKeys,
    checkpoint: Checkpoint,
    manifest: Manifest,
    indexes: Any,
    name: str,
    generations: Generations | None,
) -> None:
    fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(fd, manifest.images[name].length_bytes)

        def place(first: int, data: memoryview) -> None:
            _write(fd, data, first * UNIT_BYTES)

        restore_image(backend, keys, checkpoint.account_id, manifest, name, place, indexes=indexes, generations=generations)
    finally:
        os.close(fd)


def _ascending(fd: int, image: ImageMap) -> Iterator[tuple[int, bytes | None]]:
    """Every unit that is not the base's, in order: its bytes, or None for zero."""
    held, zero = image.locations >= 0, image.locations == -1
    position = 0
    for start in range(0, len(image.locations), _READ_UNITS):
        part = slice(start, start + _READ_UNITS)
        count = int(held[part].sum())
        data = os.pread(fd, count * UNIT_BYTES, position * UNIT_BYTES)
        position += count
        taken = 0
        for unit in np.flatnonzero(held[part] | zero[part]).tolist():
            if zero[start + unit]:
                yield start + unit, None
            else:
                yield start + unit, data[taken : taken + UNIT_BYTES]
                taken += UNIT_BYTES


def _write(fd: int, data: memoryview, offset: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], offset + done)
