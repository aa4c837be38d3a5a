"""The soak's own rules, without a stack: what its ledger believes, and what its schedule is."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.bench.fleet.asking import Outcome
from tests.bench.fleet.faults import FAULTS, plan
from tests.bench.fleet.guest import Said, State
from tests.bench.fleet.ledger import Known
from tests.bench.fleet.measured import Measured
from tests.bench.fleet.refusals import is_expected
from tests.bench.fleet.soak import operations

HOSTS = ("h-1", "h-2", "h-3")


def known() -> Known:
    session = Known("5e551011", frozenset({State("nonce", ("a",))}), epoch=1)
    session.saved_as("ck_first", session.states, 3)
    return session


def said(state: State, count: int = 9) -> Said:
    return Said(state.nonce, state.step, count, state.sums)


def test_a_right_answer_is_believed() -> None:
    session = known()
    (state,) = session.states
    assert session.heard(said(state), answered_step=False) == ""


def test_a_state_before_the_save_is_found() -> None:
    assert "must hold" in known().heard(said(State("nonce")), answered_step=False)


def test_a_state_of_another_lineage_is_found() -> None:
    assert "must hold" in known().heard(said(State("nonce", ("b",))), answered_step=False)


def test_a_mix_of_two_states_is_found() -> None:
    state = State("nonce", ("a",))
    mixed = Said("nonce", 1, 9, (state.sums[0], State("nonce", ("b",)).sums[1]))
    assert "a mix" in known().heard(mixed, answered_step=False)


def test_a_count_that_goes_back_is_found() -> None:
    session = known()
    (state,) = session.states
    session.heard(said(state, 9), answered_step=False)
    assert "older" in session.heard(said(state, 8), answered_step=False)


def test_a_step_whose_answer_was_lost_may_be_done_or_not_and_is_asked_for_again_as_it_was() -> None:
    session = known()
    (before,) = session.states
    number, token = session.next_step()
    session.asked(token)
    assert session.next_step() == (number, token)
    assert session.heard(said(before), answered_step=False) == ""
    assert session.heard(said(before.after(token)), answered_step=False) == ""
    assert "must hold" in session.heard(said(before), answered_step=False), "what was done is done"


def test_a_step_that_was_answered_is_done() -> None:
    session = known()
    (before,) = session.states
    session.asked(session.next_step()[1])
    assert "asked for step 2" in session.heard(said(before), answered_step=True)


def test_a_new_epoch_goes_on_from_the_newest_save_and_from_no_older_one() -> None:
    session = known()
    session.saved_as("ck_second", frozenset({State("nonce", ("a", "b"))}), 5)
    assert "must be from ck_second" in session.goes_on("ck_first", 2)
    assert session.goes_on("ck_unheard_of", 3) != ""


def test_a_resume_that_named_an_older_save_goes_on_from_that() -> None:
    session = known()
    session.saved_as("ck_second", frozenset({State("nonce", ("a", "b"))}), 5)
    session.tried = "ck_first"
    assert session.goes_on("ck_first", 2) == ""
    assert session.heard(said(State("nonce", ("a",)), 3), answered_step=False) == ""


def test_two_children_of_one_save_take_steps_that_can_be_told_apart() -> None:
    state = frozenset({State("nonce", ("a",))})
    one, other = Known("1111111111", state), Known("2222222222", state)
    assert one.next_step() != other.next_step()


@given(st.integers(), st.floats(200, 2000), st.floats(10, 40))
def test_a_schedule_is_the_same_for_the_same_seed_and_leaves_two_hosts_of_three(seed: int, seconds: float, every: float) -> None:
    schedule = plan(seed, seconds, every, HOSTS)
    assert schedule == plan(seed, seconds, every, HOSTS)
    kinds = [one.kind for one in schedule[: len(FAULTS)]]
    assert len(set(kinds)) == len(kinds), "every kind comes once before any comes again"
    away = [one for one in schedule if one.host and one.ends > one.begins]
    assert all(first.ends <= second.begins for first, second in pairwise(away))


def test_an_internal_fault_is_expected_only_where_a_worker_was_lost() -> None:
    assert is_expected("save", "ks_internal", "Its worker was lost 3 times, each time before the end.")
    assert not is_expected("save", "ks_internal", "The save failed inside KeepState.")
    assert not is_expected("resume", "ks_integrity", "The checkpoint is refused.")


def test_what_was_refused_at_once_is_told_apart_from_what_failed_later() -> None:
    refused, failed = Outcome(False, code="ks_conflict"), Outcome(False, code="ks_host_lost", operation_id="op_1")
    counts = {f"save {one.end}": 2 for one in (refused, failed, Outcome(True))}
    assert operations({**counts, "sent again after URLError": 9}) == {
        "save": {"done": 2, "failed ks_host_lost": 2, "refused ks_conflict": 2}
    }


def test_a_recovery_counts_from_the_begin_and_tells_who_answered_while_the_fault_lasted() -> None:
    measured = Measured()
    measured.began(0, "redis gone", 10.0)
    measured.touched(0, 3)
    measured.recovered(0, 12.0)
    measured.over(0, 20.0)
    measured.recovered(0, 25.0)
    (row,) = measured.rows()
    assert (row.n, row.p50, row.max) == (2, 2.0, 15.0)
    assert row.beside == {"faults": 1, "touched": 3, "lasted_p50": 10.0, "while_it_lasted": 1}
