"""The Range of a download."""

from types import SimpleNamespace

import pytest

from sessions_app.api import ranges
from sessions_app.errors import RangeRefused

SHA = "a" * 64


def chosen(size: int, **headers: str) -> tuple[int, int]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ranges.chosen(SimpleNamespace(headers=named), size, SHA)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bytes=0-0", (0, 1)), ("bytes=2-4", (2, 5)), ("bytes=2-", (2, 10)), ("bytes=2-99", (2, 10)), ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)), ("bytes=0-1,4-5", (0, 10)), ("lines=1-2", (0, 10)), ("bytes=-", (0, 10)), ("nonsense", (0, 10)),
    ],
)  # fmt: skip
def test_one_range_of_bytes_is_taken_and_anything_else_means_the_whole(text, expected):
    assert chosen(10, Range=text) == expected


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=10-20", "bytes=5-4", "bytes=-0"])
def test_a_range_outside_of_the_file_is_refused_with_the_files_size(text):
    with pytest.raises(RangeRefused) as refused:
        chosen(10, Range=text)
    assert refused.value.facts == {"size": 10}


def test_a_range_of_content_that_is_no_longer_the_files_is_the_whole_file():
    assert chosen(10, Range="bytes=2-4", If_Range=ranges.entity_tag(SHA)) == (2, 5)
    assert chosen(10, Range="bytes=2-4", If_Range=ranges.entity_tag("b" * 64)) == (0, 10)
