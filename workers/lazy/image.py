"""An image that is there in part: a read brings what it needs, and gives bytes only after they were verified."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from checkpoints_app.store.errors import StoreError, UnavailableError
from checkpoints_app.store.extents import Int64s
from checkpoints_app.store.ids import UNIT_BYTES
from workers.lazy.groups import Groups
from workers.lazy.loader import Loader

ABSENT, COMING, HERE = 0, 1, 2
MOST_AT_ONCE = 16  # groups, 2 MiB: who waits for one of them waits for no more than these
PATIENCE_SECONDS = 300.0  # a store that does not answer: so long a guest stands still before it is given up
RETRY_SECONDS = 1.0


class Failed(Exception):
    """The image cannot be completed. `cause` is a StoreError or an OSError."""

    def __init__(self, cause: Exception):
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True, eq=False)
class _Parts:
    """What is known until all is here."""

    groups: Groups
    loader: Loader
    state: npt.NDArray[np.uint8]  # of each group


class LazyImage:
    """Any number of threads read; each group is decoded by one of them, once. The first failure that asking again does not help is for
    good: no byte that is not here yet is given out after it, and `failed` is told.
    """

    def __init__(self, groups: Groups, loader: Loader, fd: int, failed: Callable[[Failed], None] = lambda _: None):
        self._parts: _Parts | None = _Parts(groups, loader, np.full(len(groups), ABSENT, np.uint8))
        self._fd, self._told = fd, failed
        self._changed = threading.Condition()
        self._urgent = 0
        self._failure: Failed | None = None

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the image, fewer at its end. Raises Failed: then none of them was given out."""
        parts = self._parts
        if parts is not None:
            wanted = parts.groups.within(offset // UNIT_BYTES, -(-(offset + length) // UNIT_BYTES))
            if not (parts.state[wanted] == HERE).all():
                self._read_through(parts, wanted)
        return os.pread(self._fd, length, offset)

    def bring(self, groups: Int64s) -> None:
        """Have these groups here. Raises Failed."""
        if self._parts is not None:
            self._bring(self._parts, groups)

    def let_urgent_pass(self) -> None:
        """Return when no read waits: what nobody has asked for yet comes after what a guest stands still for."""
        with self._changed:
            self._changed.wait_for(lambda: self._urgent == 0)

    def missing(self) -> int:
        """How many groups are not here yet."""
        return 0 if self._parts is None else int((self._parts.state != HERE).sum())

    def let_go(self) -> None:
        """Forget what is known per unit; reads go straight to the file from now on. Prerequisite: nothing is missing."""
        self._parts = None

    def _read_through(self, parts: _Parts, wanted: Int64s) -> None:
        with self._changed:
            self._urgent += 1
        try:
            self._bring(parts, wanted)
        finally:
            with self._changed:
                self._urgent -= 1
                self._changed.notify_all()

    def _bring(self, parts: _Parts, groups: Int64s) -> None:
        while True:
            for run in parts.groups.runs(groups, MOST_AT_ONCE):
                mine = self._claim(parts, run)
                if len(mine):
                    self._load(parts, mine)
            groups = self._await_others(parts, groups)
            if not len(groups):
                return

    def _await_others(self, parts: _Parts, groups: Int64s) -> Int64s:
        """Until nobody is bringing any of these; those that others could not bring are tried again, and tell why."""
        with self._changed:
            self._changed.wait_for(lambda: not (parts.state[groups] == COMING).any())
            return np.asarray(groups[parts.state[groups] == ABSENT])

    def _claim(self, parts: _Parts, groups: Int64s) -> Int64s:
        with self._changed:
            if self._failure is not None and not (parts.state[groups] == HERE).all():
                raise self._failure
            mine = np.asarray(groups[parts.state[groups] == ABSENT])
            parts.state[mine] = COMING
            return mine

    def _load(self, parts: _Parts, mine: Int64s) -> None:
        after = ABSENT
        try:
            _patiently(parts, mine)
            after = HERE
        except (StoreError, OSError) as error:
            raise self._fail(Failed(error)) from error
        finally:
            with self._changed:
                parts.state[mine] = after
                self._changed.notify_all()

    def _fail(self, failure: Failed) -> Failed:
        with self._changed:
            first = self._failure is None
            self._failure = self._failure or failure
        if first:
            self._told(failure)
        return self._failure


def _patiently(parts: _Parts, mine: Int64s) -> None:
    pack_id = parts.groups.pack_ids[parts.groups.packs[mine[0]]]
    sources, targets = parts.groups.units(mine)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            parts.loader.load(pack_id, sources, targets)
            return
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
        time.sleep(RETRY_SECONDS)
