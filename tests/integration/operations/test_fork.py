"""Fork: children of one checkpoint, each with what it held and nothing of each other."""

import json

import pytest

from checkpoints_app.models import Pack
from sessions_app.errors import Invalid, NoCheckpoint, NotFound
from sessions_app.models import Operation, Session
from tests.integration.operations.forking import answered, ask_fork, created, forked, resumes
from tests.integration.operations.world import (
    HOST,
    World,
    done,
    error_of,
    events,
    forget_cache,
    guest,
    live_machines,
    machine_of,
    objects,
    runs,
    scribble,
    succeeded,
)
from workers.machine.driver import MachineError
from workers.models import Host
from workers.operations import fork as forks


def test_the_children_of_a_running_session_begin_as_it_is_now_and_it_runs_on(world: World, session: Session) -> None:
    guest(session, "echo common > note")
    one, two = forked(world, session)
    assert [guest(child, "cat note") for child in (one, two)] == ["common", "common"]
    assert runs(session)
    assert (session.runtime_state, session.epoch, one.epoch, two.parent_id) == ("running", 1, 1, session.id)
    assert session.checkpoints.get().boundary == "live"


def test_what_a_child_does_is_absent_in_its_parent_and_its_sibling(world: World, session: Session) -> None:
    one, two = forked(world, session)
    guest(one, "echo mine > note")
    assert [guest(other, "test -e note || echo absent") for other in (two, session)] == ["absent", "absent"]


def test_a_parked_session_is_forked_from_its_head_without_a_machine_of_its_own(world: World, session: Session) -> None:
    guest(session, "echo kept > note")
    head = world.save(session, stop=True)
    (child,) = forked(world, session, 1)
    assert guest(child, "cat note") == "kept"
    assert (session.runtime_state, session.checkpoints.count()) == ("parked", 1)
    assert child.checkpoints.get().parent_id == head.id


def test_a_named_checkpoint_is_taken_as_it_is_and_nothing_is_saved(world: World, session: Session) -> None:
    guest(session, "echo older > note")
    older = world.save(session)
    guest(session, "echo newer > note")
    (child,) = forked(world, session, 1, older.id)
    assert guest(child, "cat note") == "older"
    assert session.checkpoints.count() == 1


def test_all_children_map_one_image_and_nothing_is_stored_for_them(world: World, session: Session) -> None:
    world.save(session, stop=True)
    before = objects()
    children = forked(world, session, 8)
    assert objects() == before
    records = [json.loads((machine_of(child).runtime / "machine.json").read_text()) for child in children]
    assert len({record["memory_inode"] for record in records}) == 1


def test_a_child_has_an_identity_that_its_parent_and_its_sibling_have_not(world: World, session: Session) -> None:
    one, two = forked(world, session)
    ids = [guest(child, "cat etc/machine-id") for child in (one, two)]
    assert len(set(ids)) == 2
    assert [guest(child, "cat etc/hostname") for child in (one, two)] == [one.short_id, two.short_id]
    assert guest(session, "test -e etc || echo none") == "none"


def test_a_child_keeps_its_identity_at_a_resume_of_its_own_save_and_gets_it_again_at_the_point_where_it_began(
    world: World, session: Session
) -> None:
    (child,) = forked(world, session, 1)
    given = guest(child, "cat etc/machine-id")
    began = child.head_checkpoint_id
    guest(child, "echo changed > etc/hostname")
    world.save(child, stop=True)
    world.resume(child)
    assert (guest(child, "cat etc/machine-id"), guest(child, "cat etc/hostname")) == (given, "changed")
    world.kill(child)
    world.resume(child, began)
    assert (guest(child, "cat etc/machine-id"), guest(child, "cat etc/hostname")) == (given, child.short_id)


def test_a_guest_that_does_not_take_its_identity_never_counts_as_running(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = ask_fork(session, 1)
    (child,) = created(operation)
    (resume,) = resumes([child])

    def refuses(*_: object, **__: object) -> None:
        raise MachineError("exec_failed", "The guest did not take its identity.")

    with monkeypatch.context() as patch:
        patch.setattr("workers.machine.fake.machine.FakeMachine.greet", refuses)
        assert error_of(resume)["code"] == "ks_start_failed"
    (told,) = answered(operation)
    assert (told["state"], told["resume_state"], told["error"]["code"]) == ("parked", "failed", "ks_start_failed")
    assert live_machines() == [f"{session.id}.1"]
    child.refresh_from_db()
    world.resume(child)
    assert guest(child, "cat etc/hostname") == child.short_id


def test_a_resume_that_fails_is_told_of_its_child_alone(world: World, session: Session) -> None:
    operation = ask_fork(session, 3)
    children = created(operation)
    first, second, third = resumes(children)
    succeeded(first)
    world.faults.resume_fails = "fault asked for"
    done(second)
    world.faults.resume_fails = None
    succeeded(third)
    told = answered(operation)
    assert [(one["id"], one["parent"]) for one in told] == [(child.id, session.id) for child in children]
    assert [one["state"] for one in told] == ["running", "parked", "running"]
    assert "fault asked for" in told[1]["error"]["message"]


def test_a_child_that_is_still_to_be_resumed_when_the_longest_wait_is_over_is_told_with_its_operation(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "ANSWER_SECONDS", 0.0)
    operation = ask_fork(session, 1)
    (child,) = created(operation)
    (told,) = answered(operation)
    assert (told["state"], told["resume_state"], told["error"]) == ("parked", "queued", None)
    assert told["resume_operation_id"] == resumes([child])[0].id


def test_the_history_of_both_sides_names_the_other(world: World, session: Session) -> None:
    (child,) = forked(world, session, 1)
    saved = session.checkpoints.get()
    assert events(child) == ["session.forked", "session.resuming", "session.resumed"]
    assert child.events.first().payload == {  # type: ignore[union-attr]
        "type": "session.forked",
        "parent": session.id,
        "checkpoint_id": saved.id,
        "parent_events": saved.event_watermark,
    }
    assert session.events.last().payload["children"] == [child.id]  # type: ignore[union-attr]


# -- each lives by itself


def test_deleting_the_parent_leaves_children_that_resume_from_the_store_alone(world: World, session: Session) -> None:
    guest(session, "echo common > note")
    scribble(session, 1, seed=1)
    one, two = forked(world, session)
    world.delete(session)
    world.kill(one)
    forget_cache()
    world.resume(one)
    assert (guest(one, "cat note"), guest(two, "cat note")) == ("common", "common")


def test_deleting_a_child_leaves_its_parent_and_its_sibling(world: World, session: Session) -> None:
    guest(session, "echo common > note")
    scribble(session, 1, seed=1)
    one, two = forked(world, session)
    world.delete(one)
    for other in (two, session):
        world.kill(other)
        forget_cache()
        world.resume(other)
        assert guest(other, "cat note") == "common"


def test_when_the_last_of_them_is_deleted_nothing_is_left(world: World, session: Session) -> None:
    scribble(session, 1, seed=1)
    one, two = forked(world, session)
    scribble(one, 1, seed=2)
    world.save(one)
    for each in (session, one, two):
        assert objects()
        world.delete(each)
    assert objects() == {}
    assert not Pack.objects.exists()


def test_a_childs_first_save_stores_what_it_wrote_and_needs_no_manifest_of_its_parent(world: World, session: Session) -> None:
    scribble(session, 4, seed=1)
    (child,) = forked(world, session, 1)
    scribble(child, 1, seed=2, at_mib=64)
    saved = world.save(child, stop=True)
    assert saved.unique_bytes is not None
    assert saved.unique_bytes < 2 << 20
    assert list(saved.manifest_edges.values_list("manifest_id", flat=True)) == [saved.manifest_id]
    world.delete(session)
    forget_cache()
    world.resume(child)


def test_the_parents_images_stay_on_this_host_while_a_child_may_need_them(world: World, session: Session) -> None:
    operation = ask_fork(session, 1)
    (child,) = created(operation)
    (resume,) = resumes([child])
    Operation.objects.filter(id=operation.id).update(state="failed")
    world.delete(session)
    assert succeeded(resume).response["images_from"] == "cached"  # type: ignore[index]


def test_a_child_is_forked_itself(world: World, session: Session) -> None:
    (child,) = forked(world, session, 1)
    guest(child, "echo child > note")
    (grandchild,) = forked(world, child, 1)
    world.delete(child)
    assert (guest(grandchild, "cat note"), guest(grandchild, "cat etc/hostname")) == ("child", grandchild.short_id)


# -- refusals


@pytest.mark.parametrize("children", [0, 9, -1])
def test_a_number_of_children_out_of_bounds_is_refused(session: Session, children: int) -> None:
    with pytest.raises(Invalid, match="1 to 8"):
        ask_fork(session, children)


def test_a_session_that_neither_runs_nor_was_saved_cannot_be_forked(world: World, session: Session) -> None:
    Session.objects.filter(id=session.id).update(runtime_state="failed", host_id="")
    with pytest.raises(NoCheckpoint):
        ask_fork(session)


def test_another_sessions_checkpoint_is_no_such_checkpoint(world: World, session: Session) -> None:
    theirs = world.save(world.boot())
    with pytest.raises(NotFound):
        ask_fork(session, 1, theirs.id)


def test_of_more_children_than_there_is_room_for_the_others_wait_and_the_fork_tells_of_all(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    Host.objects.update(offered_bytes=256 << 20)  # for the session itself and for one child
    asked = ask_fork(session, 2)
    first, second = resumes(created(asked))
    assert [(one.host_id, one.waits_for) for one in (first, second)] == [(HOST, ""), ("", "no_room")]
    succeeded(first)
    monkeypatch.setattr(forks, "ANSWER_SECONDS", 0.0)
    told = succeeded(asked).response
    assert told is not None
    assert [child["resume_state"] for child in told] == ["succeeded", "queued"]


def test_a_save_that_fails_forks_nothing_and_the_machine_runs_on(world: World, session: Session) -> None:
    world.faults.capture_fails_at = "pages"
    assert error_of(ask_fork(session))["code"] == "ks_save_failed"
    assert Session.objects.count() == 1
    assert runs(session)
