"""The Range of a download: one range of bytes, or all."""

import re

from rest_framework.request import Request

from sessions_app.errors import RangeRefused

_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")


def chosen(request: Request, size: int, sha256: str | None) -> tuple[int, int]:
    """(start, stop), stop exclusive. Raises RangeRefused.

    Several ranges, another unit, or an If-Range that names other content than the file's are answered with the whole file, as HTTP has it.
    """
    text = request.headers.get("Range", "").replace(" ", "")
    found = _RANGE.fullmatch(text)
    condition = request.headers.get("If-Range")
    if found is None or text == "bytes=-" or (condition is not None and (sha256 is None or condition.strip() != entity_tag(sha256))):
        return 0, size
    first, last = found.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
    if start >= stop:
        raise RangeRefused(
            f"The file has {size} bytes; the range lies outside of it. Nothing was read.",
            facts={"size": size},
            next_action="Ask without Range.",
        )
    return start, stop


def entity_tag(sha256: str) -> str:
    return f'"sha256:{sha256}"'
