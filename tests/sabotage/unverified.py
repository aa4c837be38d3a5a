"""`python -m tests.sabotage.unverified serve ...`: serves a lazy image as the product does, but answers a read that cannot be verified with
whatever the file has there.
"""

import os
import runpy

from workers.lazy.image import Failed, LazyImage

_read = LazyImage.read


def _read_whatever(self: LazyImage, offset: int, length: int) -> bytes:
    try:
        return _read(self, offset, length)
    except Failed:
        return os.pread(self._fd, length, offset)


LazyImage.read = _read_whatever  # type: ignore[method-assign]
runpy.run_module("workers.lazy", run_name="__main__")
