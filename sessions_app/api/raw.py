"""Bodies that are bytes: read piece by piece, and compared with the SHA-256 that was announced."""

import re
from collections.abc import Iterator

from django.http.request import UnreadablePostError
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from sessions_app.errors import Invalid

PIECE_BYTES = 256 * 1024
SHA256_HEADER = "X-KS-Sha256"
_SHA256 = re.compile(r"[0-9a-f]{64}")
ANNOUNCED = OpenApiParameter(
    SHA256_HEADER, str, OpenApiParameter.HEADER, description="SHA-256 of the body in hex; other bytes are refused."
)


def announced_sha256(request: Request) -> str | None:
    """In lower case; None where nothing was announced. Raises Invalid."""
    text = request.headers.get(SHA256_HEADER)
    if text is None:
        return None
    if not _SHA256.fullmatch(text.lower()):
        raise Invalid(f"{SHA256_HEADER} is 64 hexadecimal digits. Nothing was written.")
    return text.lower()


def pieces(request: Request) -> Iterator[bytes]:
    """The body as it is read, at most PIECE_BYTES at a time. Raises Invalid at an early end."""
    try:
        while piece := request._request.read(PIECE_BYTES):
            yield piece
    except UnreadablePostError as error:
        raise Invalid("The body could not be read to its end. Nothing was written.") from error
