"""The readers and transports of each API, in one table."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gateway_app.streams import anthropic, chat, gemini, responses, unfold
from gateway_app.streams.reader import Reader, Seen


@dataclass(frozen=True)
class Kind:
    reader: Callable[[], Reader]
    read_json: Callable[[dict[str, Any]], Seen]
    unfold: Callable[[dict[str, Any]], Iterator[bytes]]
    #: A keep-alive that every client of the API was seen to bear, between two events.
    ping: bytes
    #: The field of a whole answer that holds its blocks.
    blocks: str
    #: Whether a stream has an event that ends it: what comes after that is nothing of the answer.
    terminal: bool = True
    #: A streamed answer to who asked for no events: one list.
    read_list: Callable[[list[Any]], Seen] | None = None


KINDS: dict[str, Kind] = {
    "anthropic": Kind(
        anthropic.MessagesReader, anthropic.read_json, unfold.anthropic, b'event: ping\ndata: {"type": "ping"}\n\n', "content"
    ),
    "responses": Kind(responses.ResponsesReader, responses.read_json, unfold.responses, b": keep-alive\n\n", "output"),
    "chat": Kind(chat.ChatReader, chat.read_json, unfold.chat, b": keep-alive\n\n", "choices"),
    # No comment: gemini-cli 0.61 reads nothing after one, and says at the end that the answer is incomplete. It passes over blank lines.
    "gemini": Kind(
        gemini.GenerateReader,
        gemini.read_json,
        unfold.gemini,
        b"\r\n",
        "candidates",
        terminal=False,
        read_list=gemini.read_chunks,
    ),
}
