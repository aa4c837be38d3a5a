"""Charts say what they show to everybody, show gaps as gaps, and let nothing through that a name contains."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.drawing import units
from sessions_app.drawing.chart import Chart, Series, chart
from sessions_app.drawing.svg import Svg, element

NASTY = ["</title><script>alert(1)</script>", "\" onload='x'", "]]>", "<!--", "&#x3c;script>", "\x00\x1b[2J", "\ud800"]
HOSTILE = st.text(max_size=30) | st.sampled_from(NASTY)
VALUES = st.lists(st.none() | st.floats(min_value=0, max_value=1e15), min_size=1, max_size=40)
WORDS = "figure svg title desc g line text rect polyline circle p span details summary table caption thead tbody tr th td"
ELEMENTS = frozenset(WORDS.split())


@given(title=HOSTILE, name=HOSTILE, slot=HOSTILE, values=VALUES, kind=st.sampled_from(["line", "bars"]))
def test_whatever_a_name_contains_it_stays_text(title: str, name: str, slot: str, values: list[float | None], kind: str) -> None:
    series = Series(name, values, kind)  # type: ignore[arg-type]
    drawn = chart(Chart("k", title, [slot] * len(values), [series, Series("other", values)], form=units.size))
    parsed = ElementTree.fromstring(drawn)
    assert {one.tag for one in parsed.iter()} <= ELEMENTS
    assert not any(key.startswith("on") for one in parsed.iter() for key in one.attrib)


@given(values=VALUES)
def test_all_that_is_drawn_lies_within_the_picture(values: list[float | None]) -> None:
    parsed = ElementTree.fromstring(chart(Chart("k", "t", ["s"] * len(values), [Series("b", values, "bars"), Series("l", values)])))
    for one in parsed.iter("rect"):
        x, y, width, height = (float(one.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + width <= 640.1
        assert y + height <= 190.1
    for dot in parsed.iter("circle"):
        assert 0 <= float(dot.attrib["cx"]) <= 640
        assert 0 <= float(dot.attrib["cy"]) <= 190


def test_a_gap_is_a_gap_and_no_zero() -> None:
    parsed = ElementTree.fromstring(chart(Chart("k", "t", list("abcde"), [Series("l", [1, 2, None, 3, 4])])))
    assert len(list(parsed.iter("polyline"))) == 2
    assert [cell.text for cell in parsed.iter("td")] == ["1", "2", "–", "3", "4"]


def test_what_is_not_seen_is_told() -> None:
    parsed = ElementTree.fromstring(chart(Chart("k", "Saves", ["10:00", "11:00"], [Series("saves", [3, 7], "bars")])))
    svg = parsed.find("svg")
    assert svg is not None
    assert svg.attrib["aria-labelledby"] == "k-title k-desc"
    assert svg.findtext("desc") == "saves: last 7, greatest 7. The same figures stand in the table below it."


def test_without_a_single_figure_a_sentence_stands_in_its_place() -> None:
    assert chart(Chart("k", "t", ["a"], [Series("l", [None])], empty="None yet.")) == '<p class="ks-empty">None yet.</p>'


@given(most=st.floats(min_value=1e-6, max_value=1e18))
def test_the_axis_reaches_what_is_drawn_in_few_round_steps(most: float) -> None:
    marks = units.marks(most)
    assert marks[0] == 0
    assert marks[-1] >= most * (1 - 1e-6)
    assert 2 <= len(marks) <= 6


def test_figures_read_well() -> None:
    assert [units.size(value) for value in (0, 1023, 1024, 5 << 30)] == ["0 B", "1023 B", "1 KiB", "5 GiB"]
    assert [units.seconds(value) for value in (0.087, 5, 600, 7200, 200_000)] == ["87 ms", "5 s", "10 min", "2 h", "2.31 d"]


def test_markup_of_ours_is_not_escaped_twice() -> None:
    assert element("p", element("b", "<"), "<") == Svg("<p><b>&lt;</b>&lt;</p>")


@given(most=st.floats(min_value=0.5, max_value=1e17))
def test_an_axis_of_bytes_has_marks_that_are_round_in_their_unit(most: float) -> None:
    marks = units.size_marks(most)
    assert marks[-1] >= most * (1 - 1e-6)
    assert len(marks) <= 6


def test_a_mark_of_bytes_reads_as_a_round_number() -> None:
    assert [units.size(mark) for mark in units.size_marks(9 << 30)] == ["0 B", "5 GiB", "10 GiB"]


def test_bars_that_count_nothing_are_a_sentence_and_no_empty_picture() -> None:
    assert chart(Chart("k", "t", ["a"], [Series("b", [0], "bars")], empty="None.")) == '<p class="ks-empty">None.</p>'
