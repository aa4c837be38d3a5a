"""A memory image that a machine is started from before it is there: find the process that serves it, or start one."""

import logging
import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from workers.cache import files as cache
from workers.host import lazy
from workers.lazy import status
from workers.lazy.plan import Plan
from workers.lazy.start import Started, start
from workers.lazy.status import State
from workers.machine.driver import MachineError
from workers.machine.process import alive
from workers.restore.source import Source

log = logging.getLogger(__name__)

MOUNT_SECONDS = 30.0
_LOOK_SECONDS = 0.05


class NotLazily(Exception):
    """This host cannot serve the image so; the text says why. Nothing of it is left, and it can be restored whole."""


@contextmanager
def lazy_image(root: str, source: Callable[[], Source], check: Callable[[], None]) -> Iterator[Path]:
    """The path of the memory image of that root, served. Until this is left its process is not ended for want of a machine; what no
    machine was started from by then is ended.

    Raises NotLazily, what `source` raises, and what `check`, called while waiting, raises.
    """
    try:
        with lazy.held(root):
            with lazy.single_start(root):
                _find_or_start(root, source, check)
            yield lazy.image_in(root)
    finally:
        lazy.end_unused()


def _find_or_start(root: str, source: Callable[[], Source], check: Callable[[], None]) -> None:
    directory = lazy.directory_of(root)
    if directory.exists():
        if status.read(directory)["state"] in (State.STREAMING, State.COMPLETE):
            return
        if root in lazy.roots_in_use():
            raise NotLazily("another machine was started from this image and its process has failed")
        lazy.end(directory)
    (directory / status.MOUNT).mkdir(mode=0o755, parents=True)
    try:
        started = _start(directory)
        try:
            names = {"target": "tmp-{pid}-lazy", "name": root}
            plan = source().plan({what: str(cache.place(cache.MEMORY, name)) for what, name in names.items()})
            _mounted(started, plan, directory, check)
        finally:
            started.close()
    except BaseException:
        with suppress(MachineError):
            lazy.end(directory)
        raise


def _start(directory: Path) -> Started:
    lock = alive.acquire(directory)
    if lock is None:
        raise NotLazily("a process holds the image's directory")
    try:
        started = start("serve", [str(directory)], log=directory / "daemon.log", pass_fds=(lock,))
    except OSError as error:
        raise NotLazily(f"its process could not be started: {error}") from error
    finally:
        os.close(lock)
    status.write_process(directory, started.process.pid)
    return started


def _mounted(started: Started, plan: Plan, directory: Path, check: Callable[[], None]) -> None:
    deadline, answer = time.monotonic() + MOUNT_SECONDS, b""
    try:
        started.go(plan)
        while not answer and time.monotonic() < deadline:
            check()
            if select.select([started.control], [], [], _LOOK_SECONDS)[0]:
                answer = started.control.recv(1) or b"gone"
    except OSError:
        answer = b"gone"
    if answer != b"m":
        raise NotLazily(f"its process did not mount it: {(directory / 'daemon.log').read_text(errors='replace')[-500:]}")
