"""Listing: all pages or an error. A short list that is believed would let a sweep delete, or call lost, what is there."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from ..backend import Listed, check_key
from .answers import NotBelievedError
from .bucket import Bucket

Row = tuple[str, int]


def list_objects(bucket: Bucket, prefix: str, page_keys: int | None = None) -> Iterator[Listed]:
    """Keys in the store's own names, in pages of so many (None: as the server likes).

    What has no such name, such as a console's folder marks, is not ours and is left out.
    """
    told, top = f"listing of {prefix or 'everything'}", bucket.prefix + prefix
    token: str | None = None
    rows: list[Row] = []
    while True:
        rows, token = bucket.attempt(told, partial(_page, bucket, top, page_keys, token, rows))
        for path, size in rows:
            key = path.removeprefix(bucket.prefix)
            if _is_key(key):
                yield Listed(key, size)
        if token is None:
            return


def _page(bucket: Bucket, top: str, keys: int | None, after: str | None, before: list[Row]) -> tuple[list[Row], str | None]:
    """One page and where the next begins, or None if there is none. NotBelievedError if the page does not say so beyond doubt."""
    asked = {name: value for name, value in (("ContinuationToken", after), ("MaxKeys", keys)) if value}
    answer = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix=top, **asked)
    found: list[dict[str, Any]] = answer.get("Contents", [])
    rows = [(str(row["Key"]), int(row["Size"])) for row in found if "Key" in row and "Size" in row]
    truncated, following = answer.get("IsTruncated"), answer.get("NextContinuationToken")
    if not isinstance(truncated, bool) or answer.get("KeyCount", len(found)) != len(found) or len(rows) != len(found):
        raise NotBelievedError("the listing is not whole")
    if any(not path.startswith(top) for path, _ in rows):
        raise NotBelievedError("the listing is of something else")
    if truncated and (not following or following == after or not rows):
        raise NotBelievedError("the listing breaks off")
    if rows and rows == before:
        raise NotBelievedError("the listing does not go on: it is at the same page again")
    return rows, str(following) if truncated else None


def _is_key(key: str) -> bool:
    try:
        check_key(key)
    except ValueError:
        return False
    return True
