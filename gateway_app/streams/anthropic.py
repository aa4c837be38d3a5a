"""Anthropic Messages: https://platform.claude.com/docs/en/build-with-claude/streaming"""

import json
from typing import Any

from gateway_app.streams.reader import TEXT, End, Pieces, Seen, added, listed, mapping, named, parsed, text
from gateway_app.streams.sse import Event
from gateway_app.usage import Tokens, count

#: Which field of a block a delta adds to, by the delta's type, and the delta's own field.
_DELTAS = {"text_delta": ("text", "text"), "thinking_delta": ("thinking", "thinking"), "signature_delta": ("signature", "signature")}


def tokens(usage: Any) -> Tokens:
    told = mapping(usage)
    return Tokens(
        input=count(told, "input_tokens"),
        output=count(told, "output_tokens"),
        cache_read=count(told, "cache_read_input_tokens"),
        cache_write=count(told, "cache_creation_input_tokens"),
    )


def ordinary(usage: Any) -> bool:
    """Not so: a cache that is kept for an hour, the provider's own tools, a tier, a region or a speed with a price of its own."""
    told = mapping(usage)
    dearer = [count(told, "cache_creation", "ephemeral_1h_input_tokens"), *mapping(told.get("server_tool_use")).values()]
    words = {"service_tier": "standard", "speed": "standard", "inference_geo": "global"}
    return not any(dearer) and all(told.get(name) in (None, word, "not_available") for name, word in words.items())


def read_json(answer: dict[str, Any]) -> Seen:
    """A whole answer that was not streamed."""
    complete = answer.get("type") == "message" and answer.get("stop_reason") is not None
    end = End.COMPLETE if complete else End.ERROR if answer.get("type") == "error" else End.OPEN
    return Seen(end, tokens(answer.get("usage")), named(answer.get("model")), listed(answer.get("content")), ordinary(answer.get("usage")))


class MessagesReader:
    """Complete when `message_stop` was seen. Usage in `message_delta` is cumulative: it replaces, and is never added."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._tokens = Tokens()
        self._open: dict[int, dict[str, Any]] = {}  # blocks by index, while their deltas come
        self._json: dict[int, list[str]] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._end = End.OPEN

    @property
    def end(self) -> End:
        return self._end

    @property
    def seen(self) -> Seen:
        return Seen(self._end, self._tokens, named(self._message.get("model")), self._content(), ordinary(self._usage))

    def folded(self) -> dict[str, Any] | None:
        if self._end != End.COMPLETE:
            return None
        return {**self._message, "content": self._content(), "usage": self._usage}

    def _content(self) -> list[Any]:
        return [self._blocks[index] for index in sorted(self._blocks)]

    def take(self, event: Event) -> None:
        told = parsed(event)
        if told is None:
            return
        kind = text(told.get("type"))
        if kind == "message_start":
            self._message = {name: value for name, value in mapping(told.get("message")).items() if name not in ("content", "usage")}
            self._use(mapping(told.get("message")).get("usage"))
        elif kind == "message_delta":
            self._message |= {name: value for name, value in mapping(told.get("delta")).items() if value is not None}
            self._use(told.get("usage"))
        elif kind == "message_stop":
            self._end = End.COMPLETE if self._message else End.OPEN
        elif kind == "error":
            self._end = End.ERROR
        elif kind.startswith("content_block_"):
            self._take_block(kind, told)

    def _use(self, usage: Any) -> None:
        self._tokens = self._tokens.overlaid(tokens(usage))
        self._usage |= {name: value for name, value in mapping(usage).items() if value is not None}

    def _take_block(self, kind: str, told: dict[str, Any]) -> None:
        index = told.get("index")
        if type(index) is not int:
            return
        if kind == "content_block_start":
            self._open[index] = dict(mapping(told.get("content_block")))
            self._json[index] = []
        elif index in self._open and kind == "content_block_delta":
            self._add(index, mapping(told.get("delta")))
        elif index in self._open and kind == "content_block_stop":
            self._close(index)

    def _add(self, index: int, delta: Any) -> None:
        block, kind = self._open[index], text(delta.get("type"))
        if kind in _DELTAS:
            field, of = _DELTAS[kind]
            before = block.get(field)
            block[field] = added(before if isinstance(before, TEXT) else "", text(delta.get(of)))
        elif kind == "input_json_delta":
            self._json[index].append(text(delta.get("partial_json")))
        elif kind == "citations_delta":
            block["citations"] = listed(block.get("citations"))
            block["citations"].append(delta.get("citation"))

    def _close(self, index: int) -> None:
        block, pieces = self._open.pop(index), "".join(self._json.pop(index))
        block |= {name: "".join(value.pieces) for name, value in block.items() if isinstance(value, Pieces)}
        if pieces:
            try:
                block["input"] = json.loads(pieces)
            except (ValueError, RecursionError):
                block["input"] = pieces  # as it came: the provider's own client is who judges it
        self._blocks[index] = block
