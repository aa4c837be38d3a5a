"""The line that leads to a checkpoint, through epochs and forks."""

from gateway_app.calls.line import MOST_EPOCHS, Origin, left, line


def test_a_line_goes_back_through_every_epoch_to_the_boot_each_up_to_where_it_was_left() -> None:
    origins = {("s", 2): Origin(("s", 1), 10), ("s", 3): Origin(("s", 1), 5), ("s", 4): Origin(("s", 3), 30)}
    assert line(origins, Origin(("s", 4), 40)) == [Origin(("s", 4), 40), Origin(("s", 3), 30), Origin(("s", 1), 5)]


def test_a_forks_line_goes_on_in_its_parent() -> None:
    origins = {("child", 0): Origin(("parent", 2), 20), ("parent", 2): Origin(("parent", 1), 10), ("child", 1): Origin(("child", 0), 20)}
    assert [one.place for one in line(origins, Origin(("child", 1), 25))] == [("child", 1), ("child", 0), ("parent", 2), ("parent", 1)]


def test_ways_that_were_left_are_those_that_went_on_from_the_point_or_from_behind_it() -> None:
    origins = {
        ("s", 2): Origin(("s", 1), 10),  # from a later moment of the point's epoch
        ("s", 3): Origin(("s", 2), 20),  # and on from there
        ("s", 4): Origin(("s", 1), 5),  # from before the point
        ("s", 5): Origin(("s", 4), 40),
    }
    assert left(origins, Origin(("s", 1), 8)) == {("s", 1), ("s", 2), ("s", 3)}
    assert left(origins, Origin(("s", 4), 45)) == {("s", 4)}


def test_a_line_without_end_is_cut() -> None:
    origins = {("s", epoch): Origin(("s", epoch - 1), epoch) for epoch in range(1, 1000)}
    assert len(line(origins, Origin(("s", 999), 999))) == MOST_EPOCHS
