"""What a model call used, as its provider tells it. A figure that was not told is None, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_MOST = 10**12


@dataclass(frozen=True)
class Tokens:
    """`input` are fresh input tokens alone: neither read from the provider's cache nor written to it. Sums are the reader's to make."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None

    def overlaid(self, later: "Tokens") -> "Tokens":
        """Providers tell totals so far: a later figure replaces an earlier one, a zero too, and what it does not tell stays."""
        return Tokens(**{one.name: _later(getattr(self, one.name), getattr(later, one.name)) for one in fields(self)})

    @property
    def known(self) -> bool:
        return self.input is not None and self.output is not None

    @property
    def total(self) -> int | None:
        """All tokens that were processed; None unless input and output are known."""
        if self.input is None or self.output is None:
            return None
        return self.input + self.output + (self.cache_read or 0) + (self.cache_write or 0)


def _later(before: int | None, after: int | None) -> int | None:
    return before if after is None else after


def count(told: Mapping[str, Any], *path: str) -> int | None:
    """The number at the path; None for whatever is no plausible count of tokens."""
    value: Any = told
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if type(value) is int and 0 <= value <= _MOST else None


def less(whole: int | None, *parts: int | None) -> int | None:
    """The whole without the parts that are told; never below 0."""
    return None if whole is None else max(0, whole - sum(part or 0 for part in parts))
