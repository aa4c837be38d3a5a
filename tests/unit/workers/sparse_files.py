"""Sparse files of known content."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

PAGE = 4096


def noise(pages: int, seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(pages * PAGE)


def sparse(path: Path, pages: int, content: Mapping[int, bytes]) -> Path:
    """A file of so many pages with data only at the pages given."""
    with open(path, "wb") as file:
        file.truncate(pages * PAGE)
        for page, data in content.items():
            os.pwrite(file.fileno(), data, page * PAGE)
    return path
