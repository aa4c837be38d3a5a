from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """A plain file, or a directory, as an archive tells it. `name` is its raw bytes, which nobody has checked yet.

    `content` gives exactly `size` bytes, or raises; it is to be read before the next member is asked for, or not at all.
    """

    name: bytes
    is_dir: bool
    executable: bool
    size: int
    content: Iterator[bytes]
