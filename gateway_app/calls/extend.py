"""A request that goes on from a stored answer: the stored request, and a leading run of the blocks that its answer completed.

Clients that lost a stream after a block was whole do not ask again; they keep what they have and ask for the rest: Claude Code appends the
partial answer and a reminder that it was cut off, or the result of a tool that it has run; Codex appends the items that were done
(reference: public behaviour of both, measured). The rest is in the record: it is served, and nothing is billed. If there is no rest, or the
request brings anything that the stored answer did not lead to, it is a call of its own.
"""

from dataclasses import dataclass
from typing import Any

from gateway_app.streams.reader import listed, mapping, text


@dataclass(frozen=True)
class Rest:
    """`blocks` of the stored answer that the client does not have, from `taken` on."""

    taken: int
    blocks: list[Any]


#: How Claude Code tells a model that its answer was cut off. Matched by its beginning: the rest of the sentence differs by version.
CUT_OFF = "Your response above was cut off"


def anthropic(request: dict[str, Any], stored: dict[str, Any], answer: list[Any]) -> Rest | None:
    """The messages are the stored ones, an assistant's turn of leading blocks, and nothing after it but the reminder."""
    messages, before = listed(request.get("messages")), listed(stored.get("messages"))
    if not before or messages[: len(before)] != before or not _same_but(request, stored, "messages"):
        return None
    added = messages[len(before) :]
    if not added or text(mapping(added[0]).get("role")) != "assistant":
        return None
    blocks = _as_blocks(mapping(added[0]).get("content"))
    if not _only_reminded(added[1:]):
        return None
    return _rest(blocks, answer)


def responses(request: dict[str, Any], stored: dict[str, Any], answer: list[Any]) -> Rest | None:
    """The input is the stored one and then leading items of the answer, nothing else."""
    items, before = listed(request.get("input")), listed(stored.get("input"))
    if not before or items[: len(before)] != before or not _same_but(request, stored, "input"):
        return None
    return _rest(items[len(before) :], answer)


def _rest(blocks: list[Any], answer: list[Any]) -> Rest | None:
    count = len(blocks)
    if not 0 < count < len(answer) or [_bare(one) for one in blocks] != [_bare(one) for one in answer[:count]]:
        return None
    return Rest(count, answer[count:])


def _same_but(request: dict[str, Any], stored: dict[str, Any], field: str) -> bool:
    skipped = {field, "stream", "stream_options", "client_metadata"}
    return {name: value for name, value in request.items() if name not in skipped} == {
        name: value for name, value in stored.items() if name not in skipped
    }


def _only_reminded(messages: list[Any]) -> bool:
    if not messages:
        return True
    if len(messages) > 1 or text(mapping(messages[0]).get("role")) != "user":
        return False
    said = _as_blocks(mapping(messages[0]).get("content"))
    return len(said) == 1 and text(mapping(said[0]).get("text")).startswith(CUT_OFF)


def _as_blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else listed(content)


def _bare(block: Any) -> Any:
    """What of a block a client sends back: without marks for the provider's cache, nothing that is null, and no state."""
    if not isinstance(block, dict):
        return block
    return {name: value for name, value in block.items() if value is not None and name not in ("cache_control", "status")}
