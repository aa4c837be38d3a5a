"""Money: exact, by the price that held, and null wherever it is not known."""

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_app import pricing
from gateway_app.streams.kinds import KINDS
from gateway_app.usage import Tokens
from tests.unit.gateway import answers

FULL = {"provider": "anthropic", "model": "full", "input": "0.15", "output": "0.6", "cache_read": "0.0375", "cache_write": "0.1875"}
PRICES: list[dict[str, Any]] = [
    {**FULL, "since": "2026-01-01"},
    {**FULL, "since": "2026-06-01", "input": "0.3"},
    {**FULL, "since": "2026-03-01", "input": "0.2"},
    {"provider": "openai", "model": "full", "since": "2026-01-01", "input": "2", "output": "8", "cache_read": "0.5", "cache_write": None},
]
_COUNTS = st.integers(0, 10**7)


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pricing, "table", lambda: {"version": "test", "prices": PRICES})


@settings(max_examples=50)
@given(told=st.tuples(_COUNTS, _COUNTS, _COUNTS, _COUNTS))
def test_a_call_costs_its_tokens_times_their_prices_rounded_once(told: tuple[int, int, int, int]) -> None:
    names = ("input", "output", "cache_read", "cache_write")
    exact = sum((Fraction(PRICES[1][name]) * count for name, count in zip(names, told, strict=True)), Fraction(0))
    assert pricing.microusd("anthropic", "full", Tokens(*told), day="2026-07-01").microusd == round(exact)


@pytest.mark.parametrize(("day", "cost"), [("2025-12-31", None), ("2026-01-01", 150_000), ("2026-05-31", 200_000), ("2026-06-01", 300_000)])
def test_the_price_is_the_newest_that_held_on_the_day(day: str, cost: int | None) -> None:
    assert pricing.microusd("anthropic", "full", Tokens(10**6, 0), day=day).microusd == cost


@pytest.mark.parametrize(
    ("provider", "model", "tokens"),
    [
        ("anthropic", "unheard-of", Tokens(1, 1)),
        ("gemini", "full", Tokens(1, 1)),
        ("anthropic", "full", Tokens(None, 1)),
        ("anthropic", "full", Tokens()),
        ("openai", "full", Tokens(1, 1, 0, 5)),
    ],
)
def test_what_has_no_price_or_no_count_costs_null_and_not_nothing(provider: str, model: str, tokens: Tokens) -> None:
    assert pricing.microusd(provider, model, tokens, day="2026-07-01").microusd is None


def test_a_sort_of_tokens_without_a_price_does_not_matter_where_there_are_none_of_it() -> None:
    assert pricing.microusd("openai", "full", Tokens(1, 1, 0, 0), day="2026-07-01").microusd == 10


@pytest.mark.parametrize(
    ("kind", "whole", "where", "told"),
    [
        ("anthropic", answers.MESSAGE, "usage", {"cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 7}}),
        ("anthropic", answers.MESSAGE, "usage", {"server_tool_use": {"web_search_requests": 1}}),
        ("anthropic", answers.MESSAGE, "usage", {"service_tier": "priority"}),
        ("anthropic", answers.MESSAGE, "usage", {"speed": "fast"}),
        ("chat", answers.CHAT, "", {"service_tier": "flex"}),
        ("responses", answers.RESPONSE, "", {"service_tier": "priority"}),
    ],
)
def test_what_is_billed_by_more_than_its_tokens_has_no_price_and_its_usual_words_have(
    kind: str, whole: dict[str, Any], where: str, told: dict[str, Any]
) -> None:
    assert KINDS[kind].read_json(whole).ordinary
    dearer = {**whole, where: {**whole[where], **told}} if where else {**whole, **told}
    seen = KINDS[kind].read_json(json.loads(json.dumps(dearer)))
    assert not seen.ordinary
    assert pricing.microusd("anthropic", "full", seen.tokens, ordinary=seen.ordinary).microusd is None


def test_input_that_geminis_tools_brought_is_counted() -> None:
    told = {"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "cachedContentTokenCount": 4, "candidatesTokenCount": 2}
    assert KINDS["gemini"].read_json({"usageMetadata": told}).tokens == Tokens(11, 2, 4, None)
