"""Query parameters of lists, and the page that answers them."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from sessions_app.errors import Invalid
from sessions_app.services.cursor import Page

_DIGITS = 18


def whole(query: Mapping[str, str], name: str, *, default: int, allowed: range) -> int:
    """A decimal number within the range. Raises Invalid, naming parameter and range."""
    text = query.get(name)
    if text is None or text == "":
        return default
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) in allowed:
        return int(text)
    raise Invalid(f"{name} is a whole number from {allowed.start} to {allowed.stop - 1}.")


def flag(query: Mapping[str, str], name: str) -> bool:
    """1 or true; 0, false or absent. Anything else is refused, so that a slip does not pass for consent."""
    text = query.get(name, "").lower()
    if text in ("1", "true"):
        return True
    if text in ("", "0", "false"):
        return False
    raise Invalid(f"{name} is 1 or 0. Nothing was done.")


def rendered(page: Page[Any], serializer: type[serializers.Serializer[Any]], **context: Any) -> dict[str, Any]:
    return {"items": rows(page.items, serializer, **context), "next_cursor": page.next_cursor}


def rows(found: list[Any], serializer: type[serializers.Serializer[Any]], **context: Any) -> Any:
    return serializer(found, many=True, context=context).data
