"""The memory image of a checkpoint on this host: there already, restored whole, or served while it streams in."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from checkpoints_app.services import storage
from checkpoints_app.store.ids import units_of
from workers.cache import files as cache
from workers.cache.joining import name_at, sum_at, sum_of
from workers.lazy.plan import MAX_UNITS
from workers.restore.assemble import assemble_memory
from workers.restore.lazily import NotLazily, lazy_image
from workers.restore.source import Source
from workers.restore.whole import restore_whole, target_of

log = logging.getLogger(__name__)


class ImageDamaged(Exception):
    """A cached image is not what was assembled. It was dropped: the next attempt assembles it from verified units."""


@dataclass(frozen=True)
class MemoryImage:
    path: Path
    lazy: bool  # units are verified as they are read: not all of them have been yet
    confirm: Callable[[], None]  # to be called before a virtual CPU runs; raises ImageDamaged


def cached_memory(stack: ExitStack, root: str) -> MemoryImage | None:
    """The image if it is in the host cache. It is re-hashed beside whatever follows, and `confirm` waits for that."""
    path = cache.present(cache.MEMORY, root)
    if path is None:
        return None
    verdict = _InBackground(lambda: cache.lookup(cache.MEMORY, root) is not None)
    stack.callback(verdict.join)

    def confirm() -> None:
        if not verdict.result():
            raise ImageDamaged(f"The cached memory image {root} is not what was assembled.")

    return MemoryImage(path, lazy=False, confirm=confirm)


def restored_memory(
    stack: ExitStack,
    root: str,
    checkpoint_id: str,
    memory_bytes: int,
    source: Callable[[], Source],
    check: Callable[[], None],
    *,
    lazily: bool,
) -> MemoryImage:
    """The image out of the store. What it needs until the machine's note names it lives as long as `stack`.

    Raises IntegrityError, MissingObjectError, BackendError, OSError, and what `check` raises.
    """
    if lazily and units_of(memory_bytes) <= MAX_UNITS:
        try:
            return MemoryImage(stack.enter_context(lazy_image(root, source, check)), lazy=True, confirm=_nothing)
        except NotLazily as reason:
            log.warning("the image is restored whole", extra={"image": root, "reason": str(reason)})
    if units_of(memory_bytes) <= MAX_UNITS:
        return MemoryImage(_whole(stack, root, checkpoint_id, source, check), lazy=False, confirm=_nothing)
    return MemoryImage(_large(root, source()), lazy=False, confirm=_nothing)


def _whole(stack: ExitStack, root: str, checkpoint_id: str, source: Callable[[], Source], check: Callable[[], None]) -> Path:
    target = stack.enter_context(target_of(checkpoint_id))
    found = source()
    with ExitStack() as flight:
        flight.enter_context(cache.single_flight(cache.MEMORY, root))
        made = cache.lookup(cache.MEMORY, root)
        if made is not None:
            return made
        restore_whole(found, target, check)
        path = cache.place(cache.MEMORY, root)
        name_at(path, target.path)
        _sum_beside(stack, flight.pop_all(), path, os.dup(target.fd))
        return path


def _sum_beside(stack: ExitStack, flight: ExitStack, path: Path, fd: int) -> None:
    """The digest that later uses are compared with is taken while the machine starts: its units have just been verified as they were
    written. Until then nobody else believes the image, and who wants it waits for the flight's end.
    """

    def work() -> bool:
        with flight:
            try:
                sum_at(path, sum_of(Path(f"/proc/self/fd/{fd}")))
            finally:
                os.close(fd)
        return True

    stack.callback(_InBackground(work).join)


def _large(root: str, source: Source) -> Path:
    """Too large for two processes to know every unit of it: threads of this one share what lies outside of memory."""
    target = cache.temporary(cache.MEMORY, source.checkpoint.id)
    target.unlink(missing_ok=True)
    with cache.single_flight(cache.MEMORY, root):
        made = cache.lookup(cache.MEMORY, root)
        if made is not None:
            return made
        try:
            assemble_memory(target, source.backend, source.keys, source.checkpoint, source.manifest, source.indexes, storage.generations)
            return cache.join(cache.MEMORY, root, target)
        finally:
            target.unlink(missing_ok=True)


def _nothing() -> None:
    """Its units were verified, or are as they are read."""


class _InBackground:
    """A thread whose outcome can be asked for. An error is the asker's; one that nobody asks for is told in the log."""

    def __init__(self, work: Callable[[], bool]):
        self._work, self._value, self._asked = work, False, False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="image", daemon=True)
        self._thread.start()

    def result(self) -> bool:
        self._asked = True
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._value

    def join(self) -> None:
        self._thread.join()
        if self._error is not None and not self._asked:
            log.warning("work beside a resume failed", exc_info=self._error)

    def _run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:
            self._error = error
