"""The layout of any tree: every point has a place of its own, right of its parent, in a row of its session."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from checkpoints_app.lineage.layout import Point, layout
from checkpoints_app.lineage.picture import Line, Node, draw


@st.composite
def trees(draw_: st.DrawFn) -> list[Point]:
    """Each point hangs on an earlier one or on none, on its line or on a new one."""
    points: list[Point] = []
    for number in range(draw_(st.integers(1, 60))):
        parent = draw_(st.none() | st.sampled_from(points)) if points else None
        goes_on = parent is not None and draw_(st.booleans())
        line = parent.line if goes_on and parent else f"s{number}"
        points.append(Point(f"c{number}", line, parent.id if parent else None, draw_(st.integers(0, 3))))
    return points


@given(points=trees())
def test_every_point_has_a_place_of_its_own_right_of_its_parent(points: list[Point]) -> None:
    places = layout(points)
    assert set(places) == {point.id for point in points}
    assert len(set(places.values())) == len(points)
    for point in points:
        if point.parent:
            assert places[point.id].column == places[point.parent].column + 1


@given(points=trees())
def test_a_row_is_of_one_session_and_a_way_leads_past_no_other_point(points: list[Point]) -> None:
    places = layout(points)
    rows: dict[int, set[str]] = {}
    for point in points:
        rows.setdefault(places[point.id].row, set()).add(point.line)
    assert all(len(lines) == 1 for lines in rows.values())
    assert sorted(rows) == list(range(len(rows)))  # and no row is empty
    taken = {(place.column, place.row) for place in places.values()}
    for point in points:
        if point.parent and places[point.id].row == places[point.parent].row:
            between = range(places[point.parent].column + 1, places[point.id].column)
            assert not any((column, places[point.id].row) in taken for column in between)


def test_a_tree_deeper_than_calls_may_be_is_laid_out() -> None:
    points = [Point(f"c{at}", "s", f"c{at - 1}" if at else None) for at in range(5000)]
    assert layout(points)["c4999"].column == 4999


def test_a_wide_tree_takes_a_row_for_each_branch() -> None:
    points = [Point("root", "s", None), *(Point(f"c{at}", f"s{at}", "root") for at in range(100))]
    assert {place.row for place in layout(points).values()} == set(range(101))


def test_points_that_name_each_other_as_parents_are_left_out_and_nothing_hangs() -> None:
    assert layout([Point("a", "s", "b"), Point("b", "s", "a"), Point("c", "s", None)]).keys() == {"c"}


def test_a_point_whose_parent_is_not_shown_begins_a_row_and_says_so() -> None:
    parsed = ElementTree.fromstring(f"<r>{draw([Node(Point('c', 's', 'elsewhere'), 'published', 'now', '/c', cut=True)], {})}</r>")
    assert [path.attrib["class"] for path in parsed.iter("path")] == ["ks-edge ks-cut"]


@given(name=st.text(max_size=60) | st.just("</text><script>x</script>"))
def test_whatever_a_checkpoint_or_a_session_is_called_it_stays_text(name: str) -> None:
    nodes = [Node(Point("c", "s", None), "corrupt", "now", "/c", name=name, is_head=True, is_held=True)]
    parsed = ElementTree.fromstring(f"<r>{draw(nodes, {'s': Line('s', name, '/s')})}</r>")
    assert not list(parsed.iter("script"))
    assert {link.attrib["href"] for link in parsed.iter("a")} == {"/c", "/s"}
