"""The file that a hypervisor maps: one read-only name in a FUSE file system, whose reads come from a lazy image.

It can be opened for writing, for older hypervisors open an image that they map private no other way; a write is refused. A read that
cannot be answered with verified bytes is an I/O error: the hypervisor that needed them dies of it.
"""

import errno
import logging
import secrets
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import mfusepy

from workers.lazy.image import Failed, LazyImage
from workers.lazy.status import IMAGE

log = logging.getLogger(__name__)

_FILE = f"/{IMAGE}"
_CACHED_SECONDS = 86400  # names and sizes never change


class _OneFile(mfusepy.Operations):
    use_ns = True

    def __init__(self, image: LazyImage, length_bytes: int, mounted: Callable[[], None]):
        self._image, self._length, self._mounted = image, length_bytes, mounted
        # A save finds the mapping by this number among the process's: it must not be one that a file elsewhere has.
        self._inode = (1 << 62) | secrets.randbits(60)

    def init(self, path: str) -> None:
        self._mounted()

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o555, "st_nlink": 2, "st_ino": 1}
        if path == _FILE:
            return {"st_mode": stat.S_IFREG | 0o666, "st_nlink": 1, "st_size": self._length, "st_ino": self._inode}
        raise mfusepy.FuseOSError(errno.ENOENT)

    def open(self, path: str, flags: int) -> int:
        if path != _FILE:
            raise mfusepy.FuseOSError(errno.ENOENT)
        return 0

    def readdir(self, path: str, fh: int) -> Iterable[str]:
        return [".", "..", IMAGE]

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        try:
            return self._image.read(offset, size)
        except Failed as failed:
            log.error("a read is refused: %s", failed)  # names an object, never content
            raise mfusepy.FuseOSError(errno.EIO) from failed


def serve(image: LazyImage, length_bytes: int, place: Path, mounted: Callable[[], None]) -> None:
    """Mount and serve until it is unmounted or the process is told to end (SIGTERM). `mounted` is called once when reads are answered.

    Prerequisite: `place` is an empty directory. Raises RuntimeError if it cannot be mounted.
    """
    mfusepy.FUSE(
        _OneFile(image, length_bytes, mounted),
        str(place),
        foreground=True,
        fsname="keepstate",
        allow_other=True,
        use_ino=True,
        kernel_cache=True,
        attr_timeout=_CACHED_SECONDS,
        entry_timeout=_CACHED_SECONDS,
    )
