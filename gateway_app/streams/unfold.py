"""A whole answer as the stream that its provider would have sent: for a client that asks for the same call in the other transport.

Each is the inverse of its reader's `folded`, in as few events as its protocol allows: what came in pieces once is told at once now.
"""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from gateway_app.streams.reader import encoded, listed, mapping, text

#: Fields of a content block that a stream delivers by deltas: the delta's type, and the field of the delta.
_BY_DELTA = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "signature": ("signature_delta", "signature"),
}


def named(event: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encoded(event))


def unnamed(chunk: Any) -> bytes:
    return b"data: %b\n\n" % encoded(chunk)


def anthropic(answer: dict[str, Any]) -> Iterator[bytes]:
    usage = dict(mapping(answer.get("usage")))
    started = {**answer, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield named({"type": "message_start", "message": started})
    for index, block in enumerate(listed(answer.get("content"))):
        yield from _block(index, block)
    ended = {"stop_reason": answer.get("stop_reason"), "stop_sequence": answer.get("stop_sequence")}
    yield named({"type": "message_delta", "delta": ended, "usage": usage})
    yield named({"type": "message_stop"})


def _block(index: int, block: Any) -> Iterator[bytes]:
    if not isinstance(block, dict):
        return
    kind, deltas, begun = text(block.get("type")), list[dict[str, Any]](), dict(block)
    for field, (delta, of) in _BY_DELTA.items():
        if kind in ("text", "thinking") and isinstance(block.get(field), str):
            begun[field] = ""
            deltas.append({"type": delta, of: block[field]})
    if kind.endswith("tool_use"):
        begun["input"] = {}
        deltas.append({"type": "input_json_delta", "partial_json": json.dumps(block.get("input", {}), ensure_ascii=False)})
    if kind == "text" and listed(block.get("citations")):
        begun["citations"] = []
        deltas += [{"type": "citations_delta", "citation": one} for one in listed(block.get("citations"))]
    yield named({"type": "content_block_start", "index": index, "content_block": begun})
    for delta_event in deltas:
        yield named({"type": "content_block_delta", "index": index, "delta": delta_event})
    yield named({"type": "content_block_stop", "index": index})


def responses(answer: dict[str, Any]) -> Iterator[bytes]:
    numbered = count()

    def event(type_: str, **fields: Any) -> bytes:
        return named({"type": type_, "sequence_number": next(numbered), **fields})

    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for index, item in enumerate(listed(answer.get("output"))):
        place = {"output_index": index, "item_id": mapping(item).get("id")}
        yield event("response.output_item.added", output_index=index, item=_emptied(item))
        for number, part in enumerate(listed(mapping(item).get("content"))):
            if mapping(part).get("type") == "output_text":
                at = {**place, "content_index": number}
                yield event("response.content_part.added", **at, part={**part, "text": ""})
                yield event("response.output_text.delta", **at, delta=text(part.get("text")))
                yield event("response.output_text.done", **at, text=text(part.get("text")))
                yield event("response.content_part.done", **at, part=part)
        if text(mapping(item).get("type")) == "function_call":
            yield event("response.function_call_arguments.delta", **place, delta=text(item.get("arguments")))
            yield event("response.function_call_arguments.done", **place, arguments=text(item.get("arguments")))
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.incomplete" if answer.get("status") == "incomplete" else "response.completed", response=answer)


def _emptied(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    emptied = {**item, "status": "in_progress"} if "status" in item else dict(item)
    if "content" in item:
        emptied["content"] = []
    if item.get("type") == "function_call":
        emptied["arguments"] = ""
    return emptied


def chat(answer: dict[str, Any]) -> Iterator[bytes]:
    """An answer without usage is streamed without the chunk that tells it: a client that did not ask for that chunk falls over it."""
    head = {name: value for name, value in answer.items() if name not in ("choices", "usage", "object")}
    head["object"] = "chat.completion.chunk"
    for choice in (one for one in listed(answer.get("choices")) if isinstance(one, dict)):
        delta = {name: value for name, value in mapping(choice.get("message")).items() if value is not None}
        delta.setdefault("content", None)
        if "tool_calls" in delta:
            delta["tool_calls"] = [{"index": place, **mapping(call)} for place, call in enumerate(listed(delta["tool_calls"]))]
        place = {"index": choice.get("index", 0)}
        logprobs = {"logprobs": choice["logprobs"]} if choice.get("logprobs") else {}
        yield unnamed({**head, "choices": [{**place, "delta": delta, **logprobs, "finish_reason": None}]})
        yield unnamed({**head, "choices": [{**place, "delta": {}, "finish_reason": choice.get("finish_reason")}]})
    if answer.get("usage"):
        yield unnamed({**head, "choices": [], "usage": answer["usage"]})
    yield b"data: [DONE]\n\n"


def gemini(answer: dict[str, Any]) -> Iterator[bytes]:
    yield unnamed(answer)
