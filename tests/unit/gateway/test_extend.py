"""Requests that go on from a stored answer."""

from typing import Any

import pytest

from gateway_app.calls import extend
from gateway_app.calls.extend import Rest

ASKED: dict[str, Any] = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
ANSWER = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
REMINDER = {"role": "user", "content": [{"type": "text", "text": "Your response above was cut off mid-stream. Resume directly."}]}


def going_on(blocks: list[Any], *after: Any, **changes: Any) -> dict[str, Any]:
    return {**ASKED, "messages": [*ASKED["messages"], {"role": "assistant", "content": blocks}, *after], **changes}


@pytest.mark.parametrize("taken", [1, 2])
def test_a_client_that_kept_leading_blocks_gets_the_others(taken: int) -> None:
    request = going_on(ANSWER[:taken], REMINDER, stream=False)
    assert extend.anthropic(request, ASKED, ANSWER) == Rest(taken, ANSWER[taken:])


def test_marks_for_the_providers_cache_change_nothing() -> None:
    marked = [{**ANSWER[0], "cache_control": {"type": "ephemeral"}}]
    assert extend.anthropic(going_on(marked), ASKED, ANSWER) == Rest(1, ANSWER[1:])


@pytest.mark.parametrize(
    "request_",
    [
        ASKED,
        going_on(ANSWER, REMINDER),
        going_on([]),
        going_on([{"type": "text", "text": "Something else."}], REMINDER),
        going_on(ANSWER[1:2], REMINDER),
        going_on(ANSWER[:1], {"role": "user", "content": "And now for something else."}),
        going_on(ANSWER[:1], REMINDER, REMINDER),
        going_on(ANSWER[:1], REMINDER, model="another"),
        going_on(ANSWER[:1], REMINDER, temperature=0),
        {**ASKED, "messages": [{"role": "user", "content": "Ho"}, {"role": "assistant", "content": ANSWER[:1]}]},
        {**ASKED, "messages": "not a list"},
    ],
)
def test_whatever_else_a_request_brings_makes_it_a_call_of_its_own(request_: dict[str, Any]) -> None:
    assert extend.anthropic(request_, ASKED, ANSWER) is None


ITEMS = [{"type": "reasoning", "id": "rs_1", "status": "completed"}, {"type": "function_call", "id": "fc_1", "arguments": "{}"}]
INPUT: dict[str, Any] = {"model": "m", "input": [{"type": "message", "role": "user", "content": "Hi"}]}


def test_codex_gets_the_items_that_it_does_not_have() -> None:
    request = {**INPUT, "input": [*INPUT["input"], {"type": "reasoning", "id": "rs_1"}], "client_metadata": {"turn": 2}}
    assert extend.responses(request, INPUT, ITEMS) == Rest(1, ITEMS[1:])


@pytest.mark.parametrize("more", [[], ITEMS, [ITEMS[1]], [{"type": "message", "role": "user", "content": "More"}]])
def test_items_that_the_answer_did_not_lead_with_make_it_a_call_of_its_own(more: list[Any]) -> None:
    assert extend.responses({**INPUT, "input": [*INPUT["input"], *more]}, INPUT, ITEMS) is None
