"""The contract of a backend: immutable objects under keys, each written once.

A key is 1 to 512 characters: segments of letters, digits, '.', '_' and '-', none beginning with '.', joined by '/'. Anything else is a
ValueError before the place is touched. Objects never change: what exists is never overwritten, and a reader sees a whole object or none.

Errors besides: MissingObjectError, ObjectExistsError, and BackendError with its code (no_space, permission, unavailable).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

Chunk = bytes | bytearray | memoryview
Step = Callable[[str], None]  # called when a named step is done, in whatever thread did it; may raise to stop the work there

_SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
_KEY = re.compile(rf"{_SEGMENT}(/{_SEGMENT})*")
MAX_KEY = 512


def no_step(name: str) -> None:
    """Nobody watches."""


def check_key(key: str) -> str:
    if len(key) > MAX_KEY or not _KEY.fullmatch(key):
        raise ValueError("an object key is segments of letters, digits, '.', '_' and '-', joined by '/'")
    return key


@dataclass(frozen=True)
class Head:
    data: bytes  # the object's first bytes
    object_bytes: int  # its whole size


@dataclass(frozen=True)
class Listed:
    key: str
    object_bytes: int


class Batch(Protocol):
    """Objects that become durable together. Not atomic: after a death during `publish` some may exist, each of them whole."""

    def put(self, key: str, chunks: Iterable[Chunk]) -> int:
        """Take one object in; returns its bytes. Any thread. A failure leaves the other objects of the batch as they were.

        Until `publish` the object may or may not be visible under its key: nothing may rely on it or be written that refers to it.
        """

    def publish(self) -> None:
        """On success every object of the batch is under its key and survives a power loss.

        ObjectExistsError if a key was taken: that object is untouched. After any failure some objects of the batch may exist; what they
        hold is whole. The batch is used up either way.
        """

    def discard(self) -> None:
        """Drop what `publish` has not put in place, as far as possible. Idempotent; harmless after `publish`."""


class Backend(Protocol):
    def batch(self, step: Step = no_step) -> Batch:
        """Steps told: object_staged, objects_synced, object_named (each), objects_durable."""

    def put_if_absent(self, key: str, chunks: Iterable[Chunk]) -> int:
        """A batch of one: durable at return; returns its bytes."""

    def head(self, key: str, max_bytes: int) -> Head:
        """The first bytes (all, if there are not more) and the size, in one round trip."""

    def read(self, key: str, offset: int, length: int) -> bytes:
        """That range; shorter where the object ends."""

    def stream(self, key: str, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """The whole object in pieces. Errors may come after the first piece."""

    def size(self, key: str) -> int: ...

    def list(self, prefix: str) -> Iterator[Listed]:
        """Every object whose key begins with `prefix` ('' or whole segments ending in '/'), in no promised order.

        An error is raised, never swallowed: a listing that ends without one is complete as far as nothing was put meanwhile.
        """

    def delete(self, key: str) -> bool:
        """At return the object is gone, also after a power loss. False if it was not there."""
