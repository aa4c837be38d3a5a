"""A steer is put into a branch's next model call on its way upstream, as the last words of its newest turn; the guest never has it."""

from dataclasses import dataclass
from typing import Any

from gateway_app.proxy.request import Asked
from gateway_app.proxy.standing import Standing
from gateway_app.states import Api
from gateway_app.streams.reader import encoded
from sessions_app.services.steps import Sealer


@dataclass(frozen=True)
class Steered:
    """`body` as it goes upstream; `steer_id` is empty where nothing was put into it."""

    body: bytes
    steer_id: str


def steered(api: Api, asked: Asked, sealer: Sealer, standing: Standing) -> Steered:
    if standing.steer_id is None or asked.parsed is None:
        return Steered(asked.body, "")
    text = sealer.unseal(standing.steer_text).decode()
    body = _WAYS[api](asked.parsed, text)
    if body is None:  # nowhere to put it: it waits for a call that has a place for it
        return Steered(asked.body, "")
    return Steered(encoded(body), standing.steer_id)


def _messages(body: dict[str, Any], text: str) -> dict[str, Any] | None:
    """Anthropic's tool results must lead their turn, so the text comes last in it."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict) or messages[-1].get("role") != "user":
        return None
    content = messages[-1].get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        return None
    return {**body, "messages": [*messages[:-1], {**messages[-1], "content": [*blocks, {"type": "text", "text": text}]}]}


def _chat(body: dict[str, Any], text: str) -> dict[str, Any] | None:
    messages = body.get("messages")
    return {**body, "messages": [*messages, {"role": "user", "content": text}]} if isinstance(messages, list) else None


def _responses(body: dict[str, Any], text: str) -> dict[str, Any] | None:
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list):
        return None
    return {**body, "input": [*items, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]}


def _gemini(body: dict[str, Any], text: str) -> dict[str, Any] | None:
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents or not isinstance(contents[-1], dict) or contents[-1].get("role", "user") != "user":
        return None
    parts = contents[-1].get("parts")
    return {**body, "contents": [*contents[:-1], {**contents[-1], "parts": [*(parts if isinstance(parts, list) else []), {"text": text}]}]}


_WAYS = {Api.ANTHROPIC: _messages, Api.CHAT: _chat, Api.RESPONSES: _responses, Api.GEMINI: _gemini}
