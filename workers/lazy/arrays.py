"""Facts and arrays through an open file, from one process to another: a length, JSON that says what follows, the arrays' bytes."""

import json
import os
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_LENGTH = struct.Struct("<Q")
Arrays = Mapping[str, npt.NDArray[Any]]


def write(fd: int, facts: Mapping[str, Any], arrays: Arrays) -> None:
    """From the file's beginning. Raises OSError, TypeError for facts that JSON cannot say."""
    rows = [(name, array.dtype.str, list(array.shape)) for name, array in arrays.items()]
    head = json.dumps({"facts": dict(facts), "arrays": rows}).encode()
    with open(os.dup(fd), "wb") as file:
        file.write(_LENGTH.pack(len(head)) + head)
        file.writelines(np.ascontiguousarray(array).data.cast("B") for array in arrays.values() if array.size)


def read(fd: int) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """What `write` wrote. The arrays are read-only. Raises OSError, ValueError for anything else."""
    with open(os.dup(fd), "rb") as file:
        file.seek(0)
        data = file.read()
    (length,) = _LENGTH.unpack_from(data)
    told = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    at, arrays = _LENGTH.size + length, {}
    for name, kind, shape in told["arrays"]:
        dtype = np.dtype(kind)
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(data, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    if at != len(data):
        raise ValueError("an array is cut")
    return told["facts"], arrays
