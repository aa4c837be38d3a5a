"""A new memory image from its parent's: shared by reflink where the filesystem can, else a copy of the data alone; then the written
pages.
"""

import errno
import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workers.cache.image_sum import data_extents
from workers.machine.driver import PAGE_BYTES

FICLONE = 0x40049409
COPY_BYTES = 64 << 20


def derive(base: Path, made: Path, numbers: npt.NDArray[np.int64], pages: Path) -> None:
    """`made` = `base` with the packed pages of file `pages` laid at `numbers`.

    Bytes move inside the kernel. Raises OSError; `made` may then be partial.
    """
    with ExitStack() as stack:
        source, written = (stack.enter_context(open(path, "rb", buffering=0)).fileno() for path in (base, pages))
        target = os.open(made, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        stack.callback(os.close, target)
        _copy_data(source, target)
        cuts = np.nonzero(np.diff(numbers) != 1)[0] + 1
        for first, last in zip(np.concatenate(([0], cuts)).tolist(), np.concatenate((cuts, [len(numbers)])).tolist(), strict=True):
            if last > first:
                _copy_range(written, target, first * PAGE_BYTES, int(numbers[first]) * PAGE_BYTES, (last - first) * PAGE_BYTES)


def _copy_data(source: int, target: int) -> None:
    try:
        fcntl.ioctl(target, FICLONE, source)
        return
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL):
            raise
    os.ftruncate(target, os.fstat(source).st_size)
    for start, end in data_extents(source):
        _copy_range(source, target, start, start, end - start)


def _copy_range(source: int, target: int, source_offset: int, target_offset: int, length: int) -> None:
    while length:
        done = os.copy_file_range(source, target, min(length, COPY_BYTES), source_offset, target_offset)
        if done == 0:
            raise OSError(errno.EIO, "the source ended early")
        source_offset, target_offset, length = source_offset + done, target_offset + done, length - done
