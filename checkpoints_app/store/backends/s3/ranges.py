"""Reading: each answer is compared with the question before a byte of it counts.

The size and the writer's token come with every part, so that one round trip tells them; HEAD is not used for it because its 404 cannot
tell a missing object from a missing bucket.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from ..errors import UnavailableError
from .answers import NotBelievedError, code_of, status_of
from .bucket import Bucket
from .retry import Deadline

PUT_MARK = "ks-put"  # the metadata entry that says which put made the object; random, so it tells a stranger nothing
WINDOW_BYTES = 8 << 20  # asked for at once: what a cut answer costs again, and what a stream holds
_PIECE_BYTES = 256 << 10
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


@dataclass(frozen=True)
class Part:
    data: bytes
    object_bytes: int
    token: str


def read_part(bucket: Bucket, key: str, offset: int, length: int) -> Part:
    """That range (`length` > 0), shorter only where the object ends. MissingObjectError and the errors of `attempt`."""
    return bucket.attempt(key, lambda: part_once(bucket, key, offset, length))


def part_once(bucket: Bucket, key: str, offset: int, length: int) -> Part:
    """One attempt. Raises what the client raises, or NotBelievedError."""
    try:
        answer = bucket.client.get_object(**bucket.where(key), Range=f"bytes={offset}-{offset + length - 1}")
    except ClientError as error:
        if code_of(error) == "InvalidRange" or status_of(error) == 416:
            return _beyond_the_end(bucket, key, offset)
        raise
    body = answer["Body"]
    try:
        wanted, total = _span(answer, offset, length)
        data = _received(body, wanted, bucket.patience.deadline(wanted))
    finally:
        body.close()
    if len(data) != wanted:
        raise NotBelievedError(f"{len(data)} of {wanted} bytes came")
    return Part(data, total, _token(answer))


def facts_once(bucket: Bucket, key: str) -> Part:
    """Size and token (and the first byte), in one attempt. Raises what the client raises, or NotBelievedError."""
    return part_once(bucket, key, 0, 1)


def read_range(bucket: Bucket, key: str, offset: int, length: int) -> bytes:
    """Any length, in requests of `WINDOW_BYTES`; shorter where the object ends."""
    if length <= 0:
        bucket.attempt(key, lambda: facts_once(bucket, key))
        return b""
    parts = list(_windows(bucket, key, offset, offset + length))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def stream_object(bucket: Bucket, key: str) -> Iterator[bytes]:
    """The whole object in windows. A cut costs one window again; the object cannot change meanwhile."""
    return _windows(bucket, key, 0, None)


def _windows(bucket: Bucket, key: str, offset: int, end: int | None) -> Iterator[bytes]:
    total: int | None = None
    while total is None or offset < (total if end is None else min(end, total)):
        window = WINDOW_BYTES if end is None else min(WINDOW_BYTES, end - offset)
        part = read_part(bucket, key, offset, window)
        if total is not None and part.object_bytes != total:
            raise UnavailableError(f"{key}: its size changed from {total} to {part.object_bytes} while it was read. Retry later.")
        total = part.object_bytes
        offset += len(part.data)
        yield part.data


def _span(answer: dict[str, Any], offset: int, length: int) -> tuple[int, int]:
    """(bytes to come, the object's size) of an answer that is exactly about the range that was asked for."""
    told = _CONTENT_RANGE.fullmatch(answer.get("ContentRange") or "")
    if told is None:
        raise NotBelievedError("the answer is not the range that was asked for (does something in between drop the Range header?)")
    start, last, total = map(int, told.groups())
    if (start, last) != (offset, min(offset + length, total) - 1) or answer.get("ContentLength") != last - start + 1:
        raise NotBelievedError("the answer is another range than was asked for")
    return last - start + 1, total


def _beyond_the_end(bucket: Bucket, key: str, offset: int) -> Part:
    """The server says that nothing lies at the offset: so it must if the object is empty or shorter."""
    answer = bucket.client.head_object(**bucket.where(key))
    total = answer.get("ContentLength")
    if not isinstance(total, int) or total > offset:
        raise NotBelievedError("the server refuses a range that lies within the object")
    return Part(b"", total, _token(answer))


def _received(body: Any, wanted: int, deadline: Deadline) -> bytes:
    """So many bytes, fewer if the connection ends before. Piece by piece as they come, so that a server that drips is not waited for."""
    pieces: list[bytes] = []
    with body as raw:  # the HTTP library's own answer: `read` of the client's waits until all is there
        while wanted and (piece := raw.read1(min(wanted, _PIECE_BYTES))):
            pieces.append(piece)
            wanted -= len(piece)
            deadline.check()
    return b"".join(pieces)


def _token(answer: dict[str, Any]) -> str:
    return str((answer.get("Metadata") or {}).get(PUT_MARK, ""))
