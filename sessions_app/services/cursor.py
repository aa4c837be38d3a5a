"""Cursors of lists: where the last page ended, as text that clients hand back unread.

A cursor holds only the sort keys of a row, and every page is scoped to its account anew, so a forged cursor shows nothing that a list
would not.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.db.models import Model, Q, QuerySet

from sessions_app.errors import Invalid

T = TypeVar("T")
M = TypeVar("M", bound=Model)
_ID_CHARACTERS = 64


@dataclass(frozen=True)
class Page(Generic[T]):
    """`next_cursor` is empty at the end of the list."""

    items: list[T]
    next_cursor: str


def encode(moment: datetime, row_id: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([moment.isoformat(), row_id]).encode()).decode().rstrip("=")


def decode(text: str) -> tuple[datetime, str]:
    """Raises Invalid for what `encode` did not write."""
    try:
        moment, row_id = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        when = datetime.fromisoformat(moment)
        if when.tzinfo is None or not (
            isinstance(row_id, str) and row_id.isascii() and row_id.isprintable() and len(row_id) <= _ID_CHARACTERS
        ):
            raise ValueError("not a cursor of ours")
        when.utctimetuple()  # a moment so early or late that it has no UTC is none that a row has
    except (ValueError, TypeError, RecursionError, OverflowError, binascii.Error) as error:
        raise Invalid("The cursor is not one that a list gave.", next_action="Begin again without a cursor.") from error
    return when, row_id


def newest_first(rows: "QuerySet[M]", *, limit: int, cursor: str) -> Page[M]:
    """A page of rows that have `created_at` and `id`, newest first, after the cursor. Raises Invalid for a bad one."""
    if cursor:
        moment, row_id = decode(cursor)
        # the first condition lets an index begin at the cursor; the second orders equal moments
        rows = rows.filter(created_at__lte=moment).filter(Q(created_at__lt=moment) | Q(id__lt=row_id))
    found = list(rows.order_by("-created_at", "-id")[: limit + 1])
    items: list[Any] = found[:limit]
    return Page(items, encode(items[-1].created_at, items[-1].id) if len(found) > limit else "")
