"""OpenAI Chat Completions: https://platform.openai.com/docs/api-reference/chat-streaming"""

from typing import Any

from gateway_app.streams.reader import TEXT, End, Seen, added, listed, mapping, named, parsed, whole
from gateway_app.streams.sse import Event
from gateway_app.usage import Tokens, count, less

DONE = "[DONE]"
_DEPTH = 16
#: Texts that are told as a whole, if more than once then the same.
_NAMES = frozenset({"role", "id", "type"})


def tokens(usage: Any) -> Tokens:
    told = mapping(usage)
    read = count(told, "prompt_tokens_details", "cached_tokens")
    return Tokens(less(count(told, "prompt_tokens"), read), count(told, "completion_tokens"), read, None)


def ordinary(answer: Any) -> bool:
    """Tiers have prices of their own."""
    return mapping(answer).get("service_tier") in (None, "default", "auto")


def usage_of(known: Tokens) -> dict[str, Any]:
    """The figures as the provider tells them. Prerequisite: input and output are known."""
    prompt, completion = (known.input or 0) + (known.cache_read or 0), known.output or 0
    told = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return told if known.cache_read is None else {**told, "prompt_tokens_details": {"cached_tokens": known.cache_read}}


def read_json(answer: dict[str, Any]) -> Seen:
    choices = [mapping(choice) for choice in listed(answer.get("choices"))]
    complete = bool(choices) and all(choice.get("finish_reason") for choice in choices)
    end = End.COMPLETE if complete else End.ERROR if answer.get("error") else End.OPEN
    return Seen(
        end, tokens(answer.get("usage")), named(answer.get("model")), [choice.get("message") for choice in choices], ordinary(answer)
    )


class ChatReader:
    """Complete when every choice has its finish_reason and `[DONE]` has come. Usage comes in a chunk of its own, if it was asked for."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._usage: dict[str, Any] | None = None
        self._end = End.OPEN

    @property
    def end(self) -> End:
        return self._end

    @property
    def seen(self) -> Seen:
        messages = [whole(self._choices[one]["message"]) for one in sorted(self._choices) if self._choices[one].get("finish_reason")]
        return Seen(self._end, tokens(self._usage), named(self._head.get("model")), messages, ordinary(self._head))

    def folded(self) -> dict[str, Any] | None:
        if self._end != End.COMPLETE:
            return None
        usage = {} if self._usage is None else {"usage": self._usage}
        choices = [whole(self._choices[one]) for one in sorted(self._choices)]
        return {**self._head, "object": "chat.completion", "choices": choices, **usage}

    def take(self, event: Event) -> None:
        if event.data.strip() == DONE:
            finished = bool(self._choices) and all(choice.get("finish_reason") for choice in self._choices.values())
            if self._end == End.OPEN and finished:
                self._end = End.COMPLETE
            return
        told = parsed(event)
        if told is None:
            return
        if told.get("error"):
            self._end = End.ERROR
            return
        if isinstance(told.get("usage"), dict):
            self._usage = told["usage"]
        self._head |= {name: value for name, value in told.items() if name not in ("choices", "usage", "object", "obfuscation")}
        for choice in listed(told.get("choices")):
            self._take_choice(mapping(choice))

    def _take_choice(self, choice: Any) -> None:
        index = choice.get("index")
        if type(index) is not int:
            return
        kept = self._choices.setdefault(index, {"index": index, "message": {"role": "assistant", "content": None}, "finish_reason": None})
        merge(kept["message"], mapping(choice.get("delta")))
        if choice.get("finish_reason"):
            kept["finish_reason"] = choice["finish_reason"]
        if choice.get("logprobs"):
            merge(kept.setdefault("logprobs", {}), mapping(choice["logprobs"]))


def merge(into: dict[str, Any], delta: Any, depth: int = _DEPTH) -> None:
    """Texts are added to, lists of things with an index merged by it, other lists extended, the rest replaced, whatever the fields.

    Below the depth everything is replaced: no answer's deltas lie so deep.
    """
    for name, value in delta.items():
        before = into.get(name)
        if value is None:
            into.setdefault(name, None)
        elif isinstance(value, str) and isinstance(before, TEXT) and name not in _NAMES:
            into[name] = added(before, value)
        elif depth and isinstance(value, dict) and isinstance(before, dict):
            merge(before, value, depth - 1)
        elif depth and isinstance(value, list):
            into[name] = before if isinstance(before, list) else []
            _extend(into[name], value, depth - 1)
        else:
            into[name] = value


def _extend(into: list[Any], deltas: list[Any], depth: int) -> None:
    for delta in deltas:
        index = mapping(delta).get("index")
        same = (one for one in into if isinstance(one, dict) and one.get("index") == index) if type(index) is int else iter(())
        known = next(same, None)
        if known is None:
            into.append(delta)
        else:
            merge(known, delta, depth)
