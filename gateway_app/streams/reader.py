"""What every provider's reader does: look at a stream as it passes, or at a whole JSON answer, without changing a byte of it."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from gateway_app.streams.sse import Event
from gateway_app.usage import Tokens


class End(StrEnum):
    """How an answer ended, as far as it was seen. Only `complete` may ever be replayed."""

    OPEN = "open"  # nothing has said that it is over
    COMPLETE = "complete"  # as its protocol ends it
    ERROR = "error"  # the provider told of an error within it


@dataclass(frozen=True)
class Seen:
    """What a reader knows: `blocks` are the content blocks, or output items, that are whole, as they stand in the folded answer.

    `ordinary`: it says nothing of being billed by anything but its four sorts of tokens at the standard rate.
    """

    end: End
    tokens: Tokens
    model: str
    blocks: list[Any]
    ordinary: bool = True


class Reader(Protocol):
    """Reads one streamed answer. Whatever comes, it raises nothing: what it does not understand it passes over."""

    def take(self, event: Event) -> None: ...

    @property
    def end(self) -> End: ...

    @property
    def seen(self) -> Seen: ...

    def folded(self) -> dict[str, Any] | None:
        """The same answer as its provider gives it without streaming; None unless it is complete."""
        ...


def parsed(event: Event) -> dict[str, Any] | None:
    """The JSON object in an event's data, or None: a comment, `[DONE]`, something else."""
    if not event.data.startswith("{"):
        return None
    try:
        value = json.loads(event.data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def encoded(value: Any) -> bytes:
    """JSON in UTF-8. Half a pair of surrogates, which clients that cut texts send and providers repeat, is in no UTF-8: it is escaped."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


@dataclass(frozen=True)
class Pieces:
    """A text that came in pieces, as many as its words: put together only when it is asked for."""

    pieces: list[str]


#: A text, whole or still in pieces. A tuple: it is asked for with every word, and a union takes three times as long.
TEXT = (str, Pieces)


def added(before: str | Pieces, more: str) -> Pieces:
    """The text with more at its end. What was before is used up."""
    if isinstance(before, str):
        return Pieces([before, more])
    before.pieces.append(more)
    return before


def whole(value: Any) -> Any:
    """The value with its texts in one piece each."""
    if isinstance(value, Pieces):
        return "".join(value.pieces)
    if isinstance(value, dict):
        return {name: whole(item) for name, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, list) else value


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def named(value: Any) -> str:
    """A name of a model as it may be kept; empty for what is none."""
    return value[:100] if isinstance(value, str) and value.isprintable() else ""


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
