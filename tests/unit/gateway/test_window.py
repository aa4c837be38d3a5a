"""Which recorded calls may answer a machine that goes on from a checkpoint."""

from hypothesis import given
from hypothesis import strategies as st

from gateway_app.calls.window import Recorded, Why, window


def calls(*spans: tuple[str, int, int | None]) -> list[Recorded]:
    return [Recorded(name, started, ended, replayable=ended is not None, open=ended is None) for name, started, ended in spans]


def whys(known: list[Recorded], watermark: int) -> dict[str, str]:
    return {entry.call_id: entry.why for entry in window(known, watermark)}


def test_a_call_that_the_machine_waited_for_is_in_flight_whether_or_not_it_has_ended_since() -> None:
    assert whys(calls(("a", 1, 5), ("b", 2, None)), 3) == {"a": Why.IN_FLIGHT, "b": Why.IN_FLIGHT}


def test_the_last_answer_may_be_unread_and_one_that_was_followed_by_a_call_is_not() -> None:
    assert whys(calls(("a", 1, 2), ("b", 3, 4)), 4) == {"b": Why.UNREAD}


def test_of_answers_that_came_side_by_side_all_may_be_unread() -> None:
    assert whys(calls(("a", 1, 3), ("b", 2, 4)), 4) == {"a": Why.UNREAD, "b": Why.UNREAD}


def test_what_was_asked_after_the_checkpoint_is_lost_to_its_memory() -> None:
    assert whys(calls(("a", 1, 2), ("b", 3, 4), ("c", 5, 6)), 2) == {"a": Why.UNREAD, "b": Why.LOST, "c": Why.LOST}


def test_a_call_that_failed_or_was_cut_answers_nobody() -> None:
    cut = Recorded("a", 1, 5, replayable=False)
    assert whys([cut], 3) == {}


def test_at_the_newest_point_with_nothing_in_flight_and_much_said_only_the_last_answer_is_offered() -> None:
    known = [Recorded(str(number), 2 * number + 1, 2 * number + 2, replayable=True) for number in range(50)]
    assert whys(known, 100) == {"49": Why.UNREAD}


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Recorded], int]:
    ticks, known, waiting = 0, [], dict[str, int]()
    for number in range(draw(st.integers(0, 12))):
        ticks += 1
        waiting[str(number)] = ticks
        for name in draw(st.lists(st.sampled_from(sorted(waiting)), unique=True)) if waiting else []:
            ticks += 1
            known.append(Recorded(name, waiting.pop(name), ticks, replayable=draw(st.booleans())))
    known += [Recorded(name, started, None, replayable=False, open=True) for name, started in waiting.items()]
    return draw(st.permutations(known)), draw(st.integers(0, ticks))


@given(histories())
def test_every_call_after_the_checkpoint_is_offered_and_of_those_before_only_what_may_be_missing(known: tuple[list[Recorded], int]) -> None:
    recorded, watermark = known
    offered = whys(recorded, watermark)
    for call in recorded:
        if not (call.replayable or call.open):
            assert call.id not in offered
        elif call.started > watermark:
            assert offered[call.id] == Why.LOST
        elif call.ended is None or call.ended > watermark:
            assert offered[call.id] == Why.IN_FLIGHT
        else:
            followed = any(call.ended < other.started <= watermark for other in recorded)
            assert (call.id in offered) == (not followed)


@given(histories())
def test_entries_are_taken_in_the_order_in_which_the_calls_were_made(known: tuple[list[Recorded], int]) -> None:
    orders = [entry.order for entry in window(*known)]
    assert orders == sorted(orders)
