"""OpenAI Responses: https://platform.openai.com/docs/api-reference/responses-streaming"""

from typing import Any

from gateway_app.streams.chat import ordinary
from gateway_app.streams.reader import End, Seen, listed, mapping, named, parsed, text
from gateway_app.streams.sse import Event
from gateway_app.usage import Tokens, count, less

#: The events that end a stream as its protocol does. `failed` carries a whole response, but not one that is worth replaying.
_ENDS = {"response.completed": End.COMPLETE, "response.incomplete": End.COMPLETE, "response.failed": End.ERROR, "error": End.ERROR}
_STATES = {"completed": End.COMPLETE, "incomplete": End.COMPLETE, "failed": End.ERROR, "cancelled": End.ERROR}


def tokens(usage: Any) -> Tokens:
    told = mapping(usage)
    read, written = (count(told, "input_tokens_details", name) for name in ("cached_tokens", "cache_write_tokens"))
    return Tokens(less(count(told, "input_tokens"), read, written), count(told, "output_tokens"), read, written)


def read_json(answer: dict[str, Any]) -> Seen:
    end = _STATES.get(text(answer.get("status")), End.ERROR if answer.get("error") else End.OPEN)
    return Seen(end, tokens(answer.get("usage")), named(answer.get("model")), listed(answer.get("output")), ordinary(answer))


class ResponsesReader:
    """The terminal event carries the whole response. Items that are done before it are what a client may build upon."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._items: dict[int, Any] = {}
        self._end = End.OPEN

    @property
    def end(self) -> End:
        return self._end

    @property
    def seen(self) -> Seen:
        blocks = listed(self._response.get("output")) if self._end == End.COMPLETE else [self._items[one] for one in sorted(self._items)]
        return Seen(self._end, tokens(self._response.get("usage")), named(self._response.get("model")), blocks, ordinary(self._response))

    def folded(self) -> dict[str, Any] | None:
        return dict(self._response) if self._end == End.COMPLETE else None

    def take(self, event: Event) -> None:
        told = parsed(event)
        if told is None:
            return
        kind = text(told.get("type"))
        if kind == "response.output_item.done" and type(told.get("output_index")) is int:
            self._items[told["output_index"]] = told.get("item")
        if isinstance(told.get("response"), dict):
            self._response = told["response"]
        if kind in _ENDS and not (kind != "error" and not self._response):
            self._end = _ENDS[kind]
