"""Retention on a real store: what a policy does not keep is erased a few at a time, and nothing else ever is."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import erase, naming, removal, retention
from sessions_app.errors import Conflict
from sessions_app.models import Operation, RetentionDue, RetentionPolicy, ServiceRecord, Session
from sessions_app.services import retention as policies
from sessions_app.services.retention import Rules
from sessions_app.states import OperationKind, SessionState
from tests.store_kit import content
from tests.support.fleet import checkpoint_row, session_row
from tests.support.shelf import UNITS, Shelf


class Died(BaseException):
    pass


@pytest.fixture(autouse=True)
def _no_broker(doorbells: list[tuple[str, ...]]) -> None:
    """Nothing here needs to be heard."""


def keep(shelf: Shelf, session: Session | None = None, **rules: Any) -> None:
    """As if the policy had been previewed."""
    policies.change(shelf.account, session, Rules(**rules), expected_revision=0, consent=lambda *_: None)


def line_of(shelf: Shelf, count: int = 4) -> tuple[Session, list[Checkpoint]]:
    """A session that was saved so often, each time with one change, and its points, oldest first."""
    session, image, saved = shelf.session(), content(UNITS, 1), list[Checkpoint]()
    for number in range(count):
        image = image.copy()
        image[number * 4 : number * 4 + 2] = content(2, 100 + number)
        saved.append(shelf.save(session, image, parent=saved[-1] if saved else None))
    return session, saved


def states(rows: list[Checkpoint]) -> list[str]:
    found = Checkpoint.objects.in_bulk([row.id for row in rows])
    return [found[row.id].state for row in rows]


def test_without_a_policy_nothing_expires(shelf: Shelf) -> None:
    _, saved = line_of(shelf)
    assert retention.run_turn() == 0
    assert states(saved) == ["published"] * 4


def test_what_is_not_kept_is_erased_and_told_and_the_rest_is_whole(shelf: Shelf) -> None:
    session, saved = line_of(shelf)
    keep(shelf, keep_last=2)
    assert retention.run_turn() == 2
    assert states(saved) == ["erased", "erased", "published", "published"]
    shelf.assert_whole(saved[2])
    shelf.assert_whole(saved[3])
    shelf.assert_exact()
    assert session.events.filter(type=retention.EVENT).count() == 2
    lines = ServiceRecord.objects.filter(type=retention.EVENT, actor="policy", session_id=session.id)
    assert {line.facts["checkpoint_id"] for line in lines} == {row.id for row in saved[:2]}
    assert retention.run_turn() == 0
    assert not RetentionDue.objects.exists()


def test_a_new_point_lets_the_policy_look_again(shelf: Shelf) -> None:
    session, saved = line_of(shelf, 2)
    keep(shelf, keep_last=2)
    retention.run_turn()
    assert states(saved) == ["published", "published"]
    shelf.save(session, content(UNITS, 9), parent=saved[-1])
    assert retention.run_turn() == 1
    assert states(saved) == ["erased", "published"]


def test_a_session_s_own_policy_stands_instead_of_the_account_s(shelf: Shelf) -> None:
    session, saved = line_of(shelf)
    keep(shelf, session, keep_last=3)
    keep(shelf, keep_last=1)
    assert retention.run_turn() == 1
    assert states(saved)[0] == "erased"


def test_head_named_held_and_needed_points_stay(shelf: Shelf) -> None:
    session = session_row(shelf.account)
    rows = [checkpoint_row(session) for _ in range(6)]
    naming.rename(session, rows[0].id, "milestone")
    naming.hold(rows[1], reason="asked by the owner", by="operator")
    Operation.objects.create(
        account=shelf.account, session=session, kind=OperationKind.RESUME, queue="q", parameters={"checkpoint_id": rows[2].id}
    )
    Session.objects.filter(id=session.id).update(head_checkpoint_id=rows[3].id)
    keep(shelf, keep_last=1)
    retention.run_turn()
    assert states(rows) == ["published"] * 4 + ["erased", "published"]


def test_a_point_that_lost_its_name_or_its_hold_is_looked_at_again(shelf: Shelf) -> None:
    session = session_row(shelf.account)
    rows = [checkpoint_row(session) for _ in range(3)]
    naming.rename(session, rows[0].id, "milestone")
    naming.hold(rows[1], reason="", by="operator")
    keep(shelf, keep_last=1)
    assert retention.run_turn() == 0
    naming.rename(session, rows[0].id, "")
    assert retention.run_turn() == 1
    naming.release(rows[1], by="operator")
    assert retention.run_turn() == 1
    assert [line.type for line in ServiceRecord.objects.filter(kind="operator").order_by("id")] == ["operator.hold", "operator.release"]


def test_a_name_given_after_the_choice_was_read_keeps_the_point(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was chosen is chosen anew under the locks."""
    session = session_row(shelf.account)
    rows = [checkpoint_row(session) for _ in range(3)]
    keep(shelf, keep_last=1)
    real, named = retention.expiring, list[str]()

    def named_in_between(seen, rules):
        found = real(seen, rules)
        if not named:
            named.append(naming.rename(session, rows[0].id, "late").id)
        return found

    monkeypatch.setattr(retention, "expiring", named_in_between)
    retention.decide(session.id)
    assert states(rows) == ["published", "erasing", "published"]


def test_many_points_expire_a_few_at_a_time(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "POINTS", 2)
    session = session_row(shelf.account)
    rows = [checkpoint_row(session) for _ in range(6)]
    keep(shelf, keep_last=1)
    assert retention.run_turn() == 2
    assert states(rows)[:3] == ["erased", "erased", "published"]
    while retention.run_turn():
        pass
    assert states(rows) == ["erased"] * 5 + ["published"]


def test_a_session_over_which_nothing_can_be_decided_keeps_no_other_waiting(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = shelf.session(), shelf.session()
    rows = {session.id: [checkpoint_row(session) for _ in range(2)] for session in (bad, good)}
    keep(shelf, keep_last=1)
    RetentionDue.objects.filter(session=bad).update(due_at=Now() - timedelta(hours=1))
    real = retention.decide

    def decide(session_id: str) -> list[str]:
        if session_id == bad.id:
            raise ZeroDivisionError
        return real(session_id)

    monkeypatch.setattr(retention, "decide", decide)
    assert retention.run_turn() == 1
    assert states(rows[good.id]) == ["erased", "published"]
    assert states(rows[bad.id]) == ["published", "published"]


@pytest.mark.parametrize("step", ["marked", "pack_edges_dropped", "manifest_edges_dropped", "closed"])
def test_a_death_at_any_step_of_the_erasure_is_gone_on_with(shelf: Shelf, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    session, saved = line_of(shelf, 3)
    keep(shelf, keep_last=1)
    real = erase.erase_checkpoint

    def dying(row: Checkpoint) -> object:
        def reached(at: str) -> None:
            if at == step:
                raise Died

        return real(row, step=reached)

    with monkeypatch.context() as patch:
        patch.setattr(erase, "erase_checkpoint", dying)
        with pytest.raises(Died):
            retention.run_turn()
    retention.run_turn()
    retention.run_turn()
    assert states(saved) == ["erased", "erased", "published"]
    shelf.assert_whole(saved[2])
    shelf.assert_exact()
    assert session.events.filter(type=retention.EVENT).count() == 2


def test_a_session_that_is_being_deleted_is_left_to_its_deletion(shelf: Shelf) -> None:
    session = session_row(shelf.account, SessionState.DELETING)
    rows = [checkpoint_row(session) for _ in range(2)]
    RetentionDue.objects.create(session=session)
    RetentionPolicy.objects.create(account=shelf.account, active=True, keep_last=1)
    retention.run_turn()
    assert states(rows) == ["published", "published"]


def test_a_deleted_point_is_gone_for_its_session_at_once_and_erased_by_the_next_turn(shelf: Shelf) -> None:
    session, saved = line_of(shelf, 2)
    naming.rename(session, saved[1].id, "secret-name")
    naming.hold(saved[1], reason="", by="operator")
    removed = removal.delete(session, saved[1].id)
    session.refresh_from_db()
    assert (removed.state, removed.name, session.head_checkpoint_id) == ("erasing", "", saved[0].id)
    assert removal.delete(session, saved[1].id).state == "erasing"
    assert retention.run_turn() == 1
    assert states(saved) == ["published", "erased"]
    shelf.assert_whole(saved[0])
    shelf.assert_exact()
    assert session.events.filter(type="checkpoint.deleted").count() == 1


def test_the_last_point_of_a_session_that_does_not_run_is_not_deleted_alone(shelf: Shelf) -> None:
    parked = session_row(shelf.account, SessionState.PARKED, saved=True)
    with pytest.raises(Conflict, match="only valid checkpoint"):
        removal.delete(parked, parked.head_checkpoint_id)
    running = session_row(shelf.account, saved=True)
    removal.delete(running, running.head_checkpoint_id)


def test_a_point_that_an_operation_needs_is_not_deleted(shelf: Shelf) -> None:
    session = session_row(shelf.account, SessionState.PARKED, saved=True)
    older = session.head_checkpoint_id
    checkpoint_row(session)
    resume = Operation.objects.create(
        account=shelf.account, session=session, kind=OperationKind.RESUME, queue="q", parameters={"checkpoint_id": older}
    )
    with pytest.raises(Conflict) as refused:
        removal.delete(session, older)
    assert refused.value.facts["operation_id"] == resume.id


def test_points_of_one_moment_have_an_order(shelf: Shelf) -> None:
    session = session_row(shelf.account)
    rows = [checkpoint_row(session) for _ in range(3)]
    with transaction.atomic():
        Checkpoint.objects.filter(session=session).update(created_at=Now() - timedelta(hours=1))
    keep(shelf, keep_last=1)
    retention.run_turn()
    assert states(rows).count("published") == len({session.head_checkpoint_id, max(row.id for row in rows)})
