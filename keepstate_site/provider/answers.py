"""The fake provider's answers: drawn from the request alone, so that a cut run and an uncut one can be compared.

Two calls with the same request get the same words and different ids, as two calls of a real model would be told apart.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_TEXT = "the machine keeps its work and goes on where it was after every pause with all that it had learned"
_WORDS = tuple(_TEXT.split())


@dataclass(frozen=True)
class Wanted:
    """A request as far as an answer needs it. `number` is the call's, for its ids; `say`: the answer, if it is not to be drawn."""

    api: str
    model: str
    text: str
    words: int
    number: int
    with_usage: bool
    say: str = ""

    @property
    def input_tokens(self) -> int:
        return max(1, len(self.text) // 4)

    @property
    def output_tokens(self) -> int:
        return len(self.say.split()) if self.say else self.words

    def said(self) -> list[str]:
        """The answer's words, each with the blank before it."""
        if self.say:
            return [("" if place == 0 else " ") + word for place, word in enumerate(self.say.split())]
        start = int.from_bytes(hashlib.sha256(self.text.encode()).digest()[:4], "big")
        return [("" if place == 0 else " ") + _WORDS[(start + place * 7) % len(_WORDS)] for place in range(self.words)]


def messages(wanted: Wanted) -> dict[str, Any]:
    return {
        "id": f"msg_fake_{wanted.number}",
        "type": "message",
        "role": "assistant",
        "model": wanted.model,
        "content": [{"type": "text", "text": "".join(wanted.said())}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": wanted.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": wanted.output_tokens,
        },
    }


def messages_stream(wanted: Wanted) -> list[bytes]:
    whole = messages(wanted)
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    deltas = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in wanted.said()]
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": ended,
            "usage": {"output_tokens": wanted.output_tokens},
        },
        {"type": "message_stop"},
    ]
    return [_named(event) for event in events]


def responses(wanted: Wanted) -> dict[str, Any]:
    item = {
        "id": f"m_fake_{wanted.number}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "".join(wanted.said()), "annotations": []}],
    }
    return {
        "id": f"resp_fake_{wanted.number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": wanted.model,
        "output": [item],
        "usage": {
            "input_tokens": wanted.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": wanted.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": wanted.input_tokens + wanted.output_tokens,
        },
    }


def responses_stream(wanted: Wanted) -> list[bytes]:
    whole = responses(wanted)
    item = whole["output"][0]
    part = item["content"][0]
    place = {"output_index": 0, "item_id": item["id"], "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": word} for word in wanted.said()),
        {"type": "response.output_text.done", **place, "text": part["text"]},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [_named({"sequence_number": number, **event}) for number, event in enumerate(events)]


def chat(wanted: Wanted) -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(wanted.said())}
    return {
        "id": f"chatcmpl-fake-{wanted.number}",
        "object": "chat.completion",
        "created": 1,
        "model": wanted.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": wanted.input_tokens,
            "completion_tokens": wanted.output_tokens,
            "total_tokens": wanted.input_tokens + wanted.output_tokens,
        },
    }


def chat_stream(wanted: Wanted) -> list[bytes]:
    whole = chat(wanted)
    head = {name: whole[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    chunks = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": word}) for word in wanted.said()), chunk({}, "stop")]
    if wanted.with_usage:
        chunks.append({**head, "choices": [], "usage": whole["usage"]})
    return [*(_unnamed(one) for one in chunks), b"data: [DONE]\n\n"]


def gemini(wanted: Wanted) -> dict[str, Any]:
    return _generated(wanted, "".join(wanted.said()), "STOP")


def _generated(wanted: Wanted, text: str, finish: str | None) -> dict[str, Any]:
    ended = {"finishReason": finish} if finish else {}
    return {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": text}]}, **ended}],
        "usageMetadata": {
            "promptTokenCount": wanted.input_tokens,
            "candidatesTokenCount": wanted.output_tokens,
            "totalTokenCount": wanted.input_tokens + wanted.output_tokens,
        },
        "modelVersion": wanted.model,
        "responseId": f"fake-{wanted.number}",
    }


def gemini_stream(wanted: Wanted) -> list[bytes]:
    words = wanted.said() or [""]
    chunks = [_generated(wanted, word, "STOP" if place == len(words) - 1 else None) for place, word in enumerate(words)]
    return [f"data: {json.dumps(one, ensure_ascii=False)}\r\n\r\n".encode() for one in chunks]


#: By API: the answer whole, its events, and an error within the stream.
APIS: dict[str, tuple[Callable[[Wanted], dict[str, Any]], Callable[[Wanted], list[bytes]]]] = {
    "anthropic": (messages, messages_stream),
    "responses": (responses, responses_stream),
    "chat": (chat, chat_stream),
    "gemini": (gemini, gemini_stream),
}


def error_event(api: str) -> bytes:
    """How each API tells of an error after its 200."""
    if api == "anthropic":
        return _named({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    if api == "responses":
        return _named({"type": "error", "code": "server_error", "message": "Overloaded", "sequence_number": 9999})
    if api == "chat":
        return _unnamed({"error": {"type": "server_error", "message": "Overloaded"}})
    return _unnamed({"error": {"code": 503, "status": "UNAVAILABLE", "message": "Overloaded"}})


def error_body(api: str, status: int) -> dict[str, Any]:
    if api == "anthropic":
        return {"type": "error", "error": {"type": "rate_limit_error" if status == 429 else "api_error", "message": f"fake {status}"}}
    if api == "gemini":
        return {"error": {"code": status, "message": f"fake {status}", "status": "UNAVAILABLE"}}
    return {"error": {"type": "server_error", "code": None, "message": f"fake {status}"}}


def _named(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def _unnamed(chunk: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()
