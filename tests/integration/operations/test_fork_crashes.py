"""A fork whose worker dies at any step, or that an erasure crosses: all children once, or none."""

import threading

import pytest

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import erase, fork
from sessions_app.models import Operation, Session
from sessions_app.services import lease as leases
from sessions_app.services.fork import children_of
from tests.integration.operations.forking import answered, ask_fork, created, resumes
from tests.integration.operations.world import Died, World, done, error_of, expire, forget_cache, guest, leftovers, succeeded


@pytest.mark.parametrize("step", ["row_written", "before_publish", "published", "fork_saved", "fork_created"])
def test_the_successor_of_a_worker_that_died_finishes_with_no_child_twice(world: World, session: Session, step: str) -> None:
    guest(session, "echo common > note")
    operation = ask_fork(session, 2)
    world.die_at(step)
    with pytest.raises(Died):
        done(operation)
    expire(operation)
    children = children_of(operation) or created(operation)
    for resume in resumes(children):
        succeeded(resume)
    assert [one["state"] for one in answered(operation)] == ["running", "running"]
    assert Session.objects.filter(parent_id=session.id).count() == 2
    assert Checkpoint.objects.filter(session=session, state="published").count() == 1
    assert [guest(Session.objects.get(id=child.id), "cat note") for child in children] == ["common", "common"]
    assert leftovers() == []


def test_a_worker_that_died_while_it_waited_is_followed_by_one_that_answers(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = ask_fork(session, 1)
    children = created(operation)

    def dies(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr("workers.operations.fork.give_back_connection", dies)
        with pytest.raises(Died):
            done(operation)
    expire(operation)
    for resume in resumes(children):
        succeeded(resume)
    assert len(answered(operation)) == 1


def test_nothing_of_a_fork_whose_commit_fails_is_there(world: World, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no commit")

    with monkeypatch.context() as patch:
        patch.setattr(leases, "hand_on", fails)
        error_of(ask_fork(session, 2))
    assert Session.objects.count() == 1
    assert not Checkpoint.objects.filter(boundary="fork").exists()
    assert not Operation.objects.filter(kind="resume").exists()


def test_the_first_worker_cannot_end_what_it_has_handed_on(world: World, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease is void with the commit, so a fault of its own after that fails nothing."""
    operation = ask_fork(session, 1)

    def fault() -> None:
        raise RuntimeError("after the commit")

    world.at("fork_created", fault)
    children = created(operation)
    assert (operation.state, operation.lease_token) == ("running", None)
    for resume in resumes(children):
        succeeded(resume)
    assert len(answered(operation)) == 1


def test_an_erasure_that_comes_while_the_children_get_their_edges_waits_and_leaves_them_whole(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest(session, "echo common > note")
    point = world.save(session, stop=True)
    began, held = threading.Event(), fork.hold

    def hold_then_let_the_erasure_begin(checkpoint: Checkpoint) -> None:
        held(checkpoint)
        erasure.start()
        began.wait(10)

    def erase_point() -> None:
        from django.db import connection

        began.set()
        try:
            erase.erase_checkpoint(point)
        finally:
            connection.close()

    erasure = threading.Thread(target=erase_point)
    monkeypatch.setattr(fork, "hold", hold_then_let_the_erasure_begin)
    operation = ask_fork(session, 1)
    (child,) = created(operation)
    erasure.join(30)
    point.refresh_from_db()
    assert point.state == "erased"
    forget_cache()
    (resume,) = resumes([child])
    succeeded(resume)
    child.refresh_from_db()
    assert guest(child, "cat note") == "common"


def test_a_checkpoint_that_was_erased_before_the_children_got_their_edges_creates_none(world: World, session: Session) -> None:
    point = world.save(session, stop=True)
    operation = ask_fork(session, 1)
    world.at("fork_saved", lambda: erase.erase_checkpoint(point))
    refused = error_of(operation)
    assert refused["code"] == "ks_checkpoint_not_restorable"
    assert Session.objects.count() == 1
