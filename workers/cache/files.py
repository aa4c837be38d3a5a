"""The host cache: assembled images by content, `<cache>/<kind>/<name>` with the sum taken when it was assembled in `<name>.sum`.

An image without its sum, or with another one now, is not believed: it is removed, and the caller assembles it again from
verified units. An image never changes once it has its name, so machines map it privately and any number of them may share it.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.cache.joining import SUM, is_what_was_summed, join_at
from workers.host.identity import cache_directory

log = logging.getLogger(__name__)

MEMORY, DISK, DEVICES = "memory", "disk", "devices"


def place(kind: str, name: str) -> Path:
    directory = cache_directory() / kind
    directory.mkdir(parents=True, exist_ok=True)
    return directory / name


def temporary(kind: str, token: object) -> Path:
    """A name on the same filesystem for an image that is being made; what a dead worker left is swept with the cache."""
    return place(kind, f"tmp-{os.getpid()}-{token}")


@contextmanager
def single_flight(kind: str, name: str) -> Iterator[None]:
    """One worker of this host assembles an image; the others wait for it. The kernel frees the lock of a worker that dies."""
    with open(lock_file(kind, name), "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def lock_file(kind: str, name: str) -> Path:
    """Images whose names begin alike share a lock, so that the files are few and none need ever be removed. Nobody holds two."""
    return place(kind, name[:2] + ".lock")


def intact(kind: str, name: str) -> bool:
    """Whether the image is what was assembled, read and summed now. Raises as `is_what_was_summed`."""
    return is_what_was_summed(place(kind, name))


def lookup(kind: str, name: str) -> Path | None:
    """The image, re-hashed now and equal to its sum, or None. Marks it as used."""
    path = place(kind, name)
    try:
        if intact(kind, name):
            os.utime(path)
            return path
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        log.warning("cached image unreadable", extra={"kind": kind, "image": name}, exc_info=True)
    log.warning("cached image is not what was assembled; dropped", extra={"kind": kind, "image": name})
    drop(kind, name)
    return None


def present(kind: str, name: str) -> Path | None:
    """The image if it is here with its sum, not looked into: to be compared with it (`intact`) before a processor runs on it. Marks it as
    used.
    """
    path = place(kind, name)
    if not _sum(kind, name).exists():
        return None
    try:
        os.utime(path)
    except FileNotFoundError:
        return None
    return path


def join(kind: str, name: str, made: Path) -> Path:
    """Give a finished image its name. Prerequisite: `made` is on the cache's filesystem and its content was verified.

    Joining what is there already is harmless.
    """
    path = place(kind, name)
    join_at(path, made)
    return path


def drop(kind: str, name: str) -> None:
    """Forget an image. A machine that has it mapped or open keeps its bytes until it ends."""
    _sum(kind, name).unlink(missing_ok=True)
    place(kind, name).unlink(missing_ok=True)


def _sum(kind: str, name: str) -> Path:
    return place(kind, name + SUM)
