"""Money between text and micro-dollars: exact, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_app import money


@given(st.integers(min_value=0, max_value=10**15 - 1))
def test_what_is_written_reads_back_as_it_was(microusd: int) -> None:
    assert money.microusd(money.dollars(microusd)) == microusd


@pytest.mark.parametrize(("text", "microusd"), [("12.5", 12_500_000), ("0.000001", 1), ("100", 100_000_000), ("007.10", 7_100_000)])
def test_dollars_are_micro_dollars_exactly(text: str, microusd: int) -> None:
    assert money.microusd(text) == microusd


@pytest.mark.parametrize("text", ["", ".", "1.", ".5", "1e3", "-1", "+1", "0.0000001", "1,5", " 1", "1 ", "٣", "NaN", "1" * 10, "0x1"])
def test_what_is_no_amount_is_none(text: str) -> None:
    assert money.microusd(text) is None
