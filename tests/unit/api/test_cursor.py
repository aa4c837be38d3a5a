"""Cursors and the parameters of lists. No database."""

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.api import pages
from sessions_app.errors import Invalid
from sessions_app.services import cursor


@given(moment=st.datetimes(timezones=st.just(UTC)), row_id=st.text("0123456789abcdef_k", min_size=1, max_size=40))
def test_a_cursor_says_where_its_page_ended(moment: datetime, row_id: str) -> None:
    assert cursor.decode(cursor.encode(moment, row_id)) == (moment, row_id)


@given(st.text(max_size=200) | st.binary(max_size=100).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_what_is_no_cursor_is_refused_and_nothing_else(text: str) -> None:
    try:
        cursor.decode(text)
    except Invalid:
        pass


@pytest.mark.parametrize(
    "parts",
    ['["2026-01-01T00:00:00", "x"]', '["0001-01-01T00:00:00+23:59", "x"]', '["2026-01-01T00:00:00+00:00", "a\\u0000b"]', "[1]", "{}"],
)
def test_a_forged_cursor_is_refused(parts: str) -> None:
    with pytest.raises(Invalid):
        cursor.decode(base64.urlsafe_b64encode(parts.encode()).decode())


@given(st.text(max_size=30))
def test_a_number_is_within_its_range_or_refused(text: str) -> None:
    try:
        number = pages.whole({"limit": text}, "limit", default=50, allowed=range(1, 201))
    except Invalid:
        return
    assert 1 <= number <= 200


@pytest.mark.parametrize(("text", "told"), [("1", True), ("true", True), ("TRUE", True), ("0", False), ("false", False), ("", False)])
def test_a_flag_is_one_or_zero(text: str, told: bool) -> None:
    assert pages.flag({"force": text}, "force") is told
