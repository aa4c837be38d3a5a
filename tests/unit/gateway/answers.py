"""Answers as providers stream them, and the same as they give them whole."""

import json
from typing import Any


def named(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


def unnamed(*chunks: Any, end: str = "\n\n") -> bytes:
    return b"".join(f"data: {one if isinstance(one, str) else json.dumps(one)}{end}".encode() for one in chunks)


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "text", "text": "Grüße, 世界"},
        {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls -l"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 500, "cache_creation_input_tokens": 0, "output_tokens": 42},
}
MESSAGE_STREAM = named(
    {
        "type": "message_start",
        "message": {**MESSAGE, "content": [], "stop_reason": None, "usage": {**MESSAGE["usage"], "output_tokens": 1}},  # type: ignore[dict-item]
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "see."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Grüße, "}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "世界"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"command": '}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"ls -l"}'}},
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"output_tokens": 42}},
    {"type": "message_stop"},
)

RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "gpt-x",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "id": "m_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hello", "annotations": []}]},
    ],
    "usage": {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 7, "total_tokens": 37},
}
RESPONSE_STREAM = named(
    {"type": "response.created", "sequence_number": 0, "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None}},
    {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": RESPONSE["output"][0]},  # type: ignore[index]
    {"type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": RESPONSE["output"][0]},  # type: ignore[index]
    {"type": "response.output_text.delta", "sequence_number": 3, "output_index": 1, "delta": "Hello"},
    {"type": "response.output_item.done", "sequence_number": 4, "output_index": 1, "item": RESPONSE["output"][1]},  # type: ignore[index]
    {"type": "response.completed", "sequence_number": 5, "response": RESPONSE},
)

CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-x",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello",
                "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"a": 1}'}}],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 30, "prompt_tokens_details": {"cached_tokens": 20}, "completion_tokens": 7, "total_tokens": 37},
}


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x", "choices": choices}


def _call(**fields: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, **fields}]}


CHAT_STREAM = unnamed(
    _chunk({"role": "assistant", "content": ""}),
    _chunk({"content": "Hel"}),
    _chunk({"content": "lo"}),
    _chunk(_call(id="call_1", type="function", function={"name": "bash", "arguments": ""})),
    _chunk(_call(function={"arguments": '{"a": '})),
    _chunk(_call(function={"arguments": "1}"})),
    _chunk({}, "tool_calls"),
    {**_chunk({}), "choices": [], "usage": CHAT["usage"]},
    "[DONE]",
)

GENERATED = {
    "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Hello there"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 5, "thoughtsTokenCount": 3, "totalTokenCount": 20},
    "modelVersion": "gemini-x",
}
GENERATE_STREAM = unnamed(
    {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Hello"}]}}],
        "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 1, "totalTokenCount": 13},
        "modelVersion": "gemini-x",
    },
    {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": " there"}]}, "finishReason": "STOP"}],
        "usageMetadata": GENERATED["usageMetadata"],
        "modelVersion": "gemini-x",
    },
    end="\r\n\r\n",
)
