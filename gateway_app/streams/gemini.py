"""Gemini generateContent: https://ai.google.dev/api/generate-content"""

from typing import Any

from gateway_app.streams.reader import End, Pieces, Seen, added, listed, mapping, named, parsed, whole
from gateway_app.streams.sse import Event
from gateway_app.usage import Tokens, count, less


def tokens(usage: Any) -> Tokens:
    """Thoughts are told apart from candidates, and are output both; what its tools brought is input beside the prompt."""
    told = mapping(usage)
    read = count(told, "cachedContentTokenCount")
    candidates, thoughts = count(told, "candidatesTokenCount"), count(told, "thoughtsTokenCount")
    output = None if candidates is None and thoughts is None else (candidates or 0) + (thoughts or 0)
    fresh, of_tools = less(count(told, "promptTokenCount"), read), count(told, "toolUsePromptTokenCount")
    return Tokens(fresh if fresh is None else fresh + (of_tools or 0), output, read, None)


def read_json(answer: dict[str, Any]) -> Seen:
    reader = GenerateReader()
    reader.take_chunk(answer)
    return reader.seen


def read_chunks(chunks: list[Any]) -> Seen:
    """A streamed answer as it comes where no events were asked for: one list of all chunks."""
    reader = GenerateReader()
    for chunk in chunks:
        if isinstance(chunk, dict):
            reader.take_chunk(chunk)
    return reader.seen


class GenerateReader:
    """Usage is cumulative in every chunk. There is no terminal event: an answer is complete when each candidate has its finishReason."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._candidates: dict[int, dict[str, Any]] = {}
        self._tokens = Tokens()
        self._failed = self._blocked = False

    @property
    def seen(self) -> Seen:
        parts = [whole(part) for one in sorted(self._candidates) for part in self._candidates[one]["content"]["parts"]]
        return Seen(self.end, self._tokens, named(self._head.get("modelVersion")), parts)

    @property
    def end(self) -> End:
        if self._failed:
            return End.ERROR
        finished = bool(self._candidates) and all(one.get("finishReason") for one in self._candidates.values())
        return End.COMPLETE if finished or self._blocked else End.OPEN

    def folded(self) -> dict[str, Any] | None:
        if self.end != End.COMPLETE:
            return None
        return {"candidates": [whole(self._candidates[one]) for one in sorted(self._candidates)], **self._head}

    def take(self, event: Event) -> None:
        told = parsed(event)
        if told is not None:
            self.take_chunk(told)

    def take_chunk(self, told: dict[str, Any]) -> None:
        if told.get("error"):
            self._failed = True
            return
        self._blocked = self._blocked or bool(mapping(told.get("promptFeedback")).get("blockReason"))
        self._tokens = self._tokens.overlaid(tokens(told.get("usageMetadata")))
        self._head |= {name: value for name, value in told.items() if name != "candidates"}
        for position, candidate in enumerate(listed(told.get("candidates"))):
            self._take_candidate(position, mapping(candidate))

    def _take_candidate(self, position: int, candidate: Any) -> None:
        index = candidate.get("index")
        index = index if type(index) is int else position
        kept = self._candidates.setdefault(index, {"index": index, "content": {"role": "model", "parts": []}})
        content = mapping(candidate.get("content"))
        for part in listed(content.get("parts")):
            _add_part(kept["content"]["parts"], part)
        kept["content"] |= {name: value for name, value in content.items() if name != "parts"}
        kept |= {name: value for name, value in candidate.items() if name not in ("content", "index")}


def _add_part(parts: list[Any], part: Any) -> None:
    """Texts that follow each other are one part, as the provider gives them without streaming; a thought is another part than an answer."""
    last = parts[-1] if parts else None
    if isinstance(last, dict) and isinstance(part, dict) and _plain(last) and _plain(part) and last.get("thought") == part.get("thought"):
        parts[-1] = {**last, **part, "text": added(last["text"], part["text"])}
    else:
        parts.append(part)


def _plain(part: dict[str, Any]) -> bool:
    return (
        isinstance(part.get("text"), str | Pieces)
        and set(part) <= {"text", "thought", "thoughtSignature"}
        and not part.get("thoughtSignature")
    )
