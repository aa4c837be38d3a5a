"""A fork's whole line is its parent's up to the fork, then its own; what is missing of it is told. And the tree around a session."""

from importlib import import_module

import pytest
from django.db import connection, transaction

from sessions_app.errors import Invalid
from sessions_app.models import Session
from sessions_app.services import event, fork, history, lineage
from sessions_app.services.history import Gap
from sessions_app.states import SessionState
from tests.support.fleet import Tenant, session_row
from tests.support.kept import without_rules


def _with_events(session: Session, *types: str) -> Session:
    with transaction.atomic():
        for type_ in types:
            event.append(session.id, type_, source="test")
    session.refresh_from_db()
    return session


def _child(parent: Session, watermark: int, number: int = 0) -> Session:
    facts = {"checkpoint_id": "ck_point", "parent_events": watermark}
    with transaction.atomic():
        return fork.create_child(parent, fork.child_id(f"op_{parent.id}", number), source="test", facts=facts)


@pytest.fixture
def family(owner: Tenant) -> tuple[Session, Session, Session]:
    """A grandparent with 4 events, forked at 3; its child with 3, forked at 2; that one's child."""
    first = _with_events(session_row(owner.account), "a1", "a2", "a3", "a4")
    second = _with_events(_child(first, 3), "b2", "b3")
    return first, second, _with_events(_child(second, 2), "c2")


def _read(session: Session, limit: int) -> tuple[list[str], list[Gap]]:
    """Page after page."""
    types, gaps, cursor = [], [], ""
    while True:
        page = history.line_page(session, cursor=cursor, limit=limit)
        types += [row.type for row in page.items]
        gaps += page.gaps
        cursor = page.next_cursor
        if not cursor:
            return types, gaps


WHOLE = ["a1", "a2", "a3", "session.forked", "b2", "session.forked", "c2"]


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8])
def test_pages_of_any_size_cross_the_seams_with_nothing_twice_and_nothing_left_out(
    family: tuple[Session, Session, Session], limit: int
) -> None:
    assert _read(family[2], limit) == (WHOLE, [])


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_what_went_with_a_deleted_parent_is_told_once_on_pages_of_any_size(family: tuple[Session, Session, Session], limit: int) -> None:
    first, second, third = family
    Session.objects.filter(id=second.id).update(runtime_state=SessionState.DELETED)
    assert _read(third, limit) == (["a1", "a2", "a3", "session.forked", "c2"], [Gap(second.id, 1, 2, "deleted")])
    Session.objects.filter(id=first.id).update(runtime_state=SessionState.DELETING)
    deleted = [Gap(first.id, 1, 3, "deleted"), Gap(second.id, 1, 2, "deleted")]
    assert _read(third, limit) == (["session.forked", "c2"], deleted)


@pytest.mark.parametrize("limit", range(1, 4))
def test_a_number_that_is_not_there_is_told(family: tuple[Session, Session, Session], limit: int) -> None:
    first, second, _ = family
    with without_rules():
        first.events.filter(number__in=[1, 3]).delete()
    types, gaps = _read(second, limit)
    assert types == ["a2", "session.forked", "b2", "b3"]
    assert gaps == [Gap(first.id, 1, 1, "missing"), Gap(first.id, 3, 3, "missing")]


def test_a_parent_that_is_not_known_here_is_told(owner: Tenant) -> None:
    child = _with_events(session_row(owner.account, parent_id="f" * 32), "own")
    assert _read(child, 10) == (["own"], [Gap("f" * 32, 1, None, "unknown")])
    assert lineage.of(child).unknown_ancestor_id == "f" * 32


@pytest.mark.parametrize("cursor", ["1", "x.1", ".", f"{'0' * 32}.1"])
def test_a_cursor_of_another_line_is_refused(family: tuple[Session, Session, Session], cursor: str) -> None:
    with pytest.raises(Invalid):
        history.line_page(family[2], cursor=cursor, limit=5)


def test_a_restore_of_the_parent_after_the_fork_marks_nothing_in_the_childs_line(family: tuple[Session, Session, Session]) -> None:
    first, second, _ = family
    with transaction.atomic():
        event.append(first.id, "session.restored", {"event_watermark": 1, "left_events": 4}, source="test")
    page = history.line_page(second, cursor="", limit=10)
    assert page.left == {first.id: [], second.id: []}
    own = history.line_page(first, cursor="", limit=10)
    assert [row.number for row in own.items if history.superseded(row, own.left[first.id])] == [2, 3, 4]


def test_a_tree_has_its_members_by_generation_and_no_strangers(family: tuple[Session, Session, Session], owner: Tenant) -> None:
    first, second, third = family
    sister = _child(first, 4, number=1)
    session_row(owner.account)
    seen = lineage.of(second)
    assert [(one.session.id, one.generation) for one in seen.ancestors] == [(first.id, -1)]
    assert [(one.session.id, one.generation) for one in seen.descendants] == [(third.id, 1)]
    whole = lineage.of(first)
    assert {(one.session.id, one.generation) for one in whole.descendants} == {(second.id, 1), (sister.id, 1), (third.id, 2)}
    assert (whole.more_ancestors, whole.more_descendants) == (False, False)


def test_a_tree_is_bounded_both_ways_and_says_so(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "GENERATIONS", 3)
    monkeypatch.setattr(lineage, "DESCENDANTS", 4)
    line = [session_row(owner.account)]
    for _ in range(5):
        line.append(_child(line[-1], 1))
    down, up = lineage.of(line[0]), lineage.of(line[-1])
    assert ([one.session for one in down.descendants], down.more_descendants) == (line[1:4], True)
    assert ([one.session for one in up.ancestors], up.more_ancestors) == (line[4:1:-1], True)
    assert history.segments(line[-1])[0] == history.Segment(line[1].id, 1, "not_shown")
    wide = session_row(owner.account)
    for number in range(6):
        _child(wide, 1, number=number)
    assert (len(lineage.of(wide).descendants), lineage.of(wide).more_descendants) == (4, True)


def test_what_older_forks_have_only_told_their_history_is_taken_over(family: tuple[Session, Session, Session]) -> None:
    rules = import_module("sessions_app.migrations.0018_history_rules")
    Session.objects.update(fork_checkpoint_id="", fork_watermark=None)
    with connection.cursor() as cursor:
        cursor.execute(rules.FORKS)
    told = {one.id: (one.fork_checkpoint_id, one.fork_watermark) for one in Session.objects.all()}
    first, second, third = family
    assert told == {first.id: ("", None), second.id: ("ck_point", 3), third.id: ("ck_point", 2)}
