"""Large arrays outside of the process's memory: in unlinked files, of which the page cache holds what there is room for.

What a save or a restore knows per unit (maps, ids, sorted prefixes) grows with the image, the memory that it may take does not. Such
arrays come from here and are walked in pieces, each of which leaves memory when the next is begun. Small arrays are ordinary ones.

The files hold keyed ids and places of units, never content, and are gone with the process.
"""

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

IN_MEMORY_BYTES = 8 << 20  # an array up to this size is an ordinary one
PIECE_UNITS = 1 << 17  # 512 MiB of an image; 1 MiB of its map

_place: dict[str, Path] = {}


def use_directory(directory: Path) -> None:
    """Where the files go from now on, instead of the system's directory of temporary files, which may itself lie in memory."""
    _place["directory"] = directory


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike, *, in_memory: int = IN_MEMORY_BYTES) -> npt.NDArray[Any]:
    """An array with any content, outside if it has more than `in_memory` bytes.

    OSError if there is no room for it, now and not when it is written.
    """
    kind = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    if size <= in_memory:
        return np.empty(shape, kind)
    directory = _place.get("directory")
    if directory is not None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory, prefix="spill-") as file:
        os.posix_fallocate(file.fileno(), 0, size)  # a hole without room behind it would end the process at its first write
        mapped = mmap.mmap(file.fileno(), size)
    return np.frombuffer(mapped, kind).reshape(shape)


def full(length: int, value: int) -> npt.NDArray[np.int64]:
    made: npt.NDArray[np.int64] = empty(length, np.int64)
    for start, piece in pieces(made):
        made[start : start + len(piece)] = value
    return made


def copy(array: npt.NDArray[Any], capacity: int | None = None, *, in_memory: int = IN_MEMORY_BYTES) -> npt.NDArray[Any]:
    """Another array with the same content, and room for so many rows."""
    made = empty((len(array) if capacity is None else capacity, *array.shape[1:]), array.dtype, in_memory=in_memory)
    for start, piece in pieces(array, made):
        made[start : start + len(piece)] = piece
    return made


def pieces(array: npt.NDArray[Any], *beside: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """The array's parts in order, each with its place. A part leaves memory with the next, and so does what was used `beside` it."""
    for start in range(0, len(array), PIECE_UNITS):
        yield start, array[start : start + PIECE_UNITS]
        for used in (array, *beside):
            release(used)


def release(array: npt.NDArray[Any]) -> None:
    """Let the array's pages leave memory; its content stays, and what is used again comes back. Nothing for an ordinary array."""
    mapped = _mapping(array)
    if mapped is not None:
        mapped.madvise(mmap.MADV_DONTNEED)


def spilled_bytes(array: npt.NDArray[Any]) -> int:
    """How much of it lies outside: its size, or 0 for an ordinary array."""
    return array.nbytes if _mapping(array) is not None else 0


def _mapping(array: npt.NDArray[Any]) -> mmap.mmap | None:
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    return owner if isinstance(owner, mmap.mmap) else None
