"""Restore: the whole session goes back to a named checkpoint, in a new epoch, and nothing that is recorded is rolled back."""

import pytest

from checkpoints_app.models import Checkpoint
from sessions_app.errors import StackIncompatible
from sessions_app.models import Session
from sessions_app.services import cancel, history, restore
from tests.integration.operations.restoring import answer_of, ask_restore, consented, refused
from tests.integration.operations.world import (
    World,
    damage,
    done,
    error_of,
    events,
    forget_cache,
    guest,
    live_machines,
    pid_of,
    runs,
    scribble,
    store_directory,
    succeeded,
)
from workers.operations import waking


def test_at_once_after_its_save_a_running_session_goes_back_without_consent_and_its_machine_is_ended_unsaved(
    world: World, session: Session
) -> None:
    guest(session, "echo kept > note")
    point = world.save(session)
    answer = answer_of(ask_restore(session, point))
    session.refresh_from_db()
    assert (answer["new_epoch"], answer["continuation"], answer["stopped_at"], answer["scope"]) == (
        2,
        "exact_runtime",
        None,
        "whole_session",
    )
    assert [phase["done"] for phase in answer["phases"]] == [True] * len(restore.PHASES)
    assert answer["phases"][2]["detail"] == "The machine was ended without a save."
    assert (session.runtime_state, session.head_checkpoint_id) == ("running", point.id)
    assert live_machines() == [f"{session.id}.2"]
    assert guest(session, "cat note") == "kept"
    assert Checkpoint.objects.filter(session=session).count() == 1


def test_later_work_refuses_it_with_the_exact_list_and_only_that_lists_digest_consents(world: World, session: Session) -> None:
    guest(session, "echo one > note")
    first = world.save(session)
    succeeded(world.ask_exec(session, "sh", "-c", "echo two > note"))
    second = world.save(session)
    told = refused(session, first)
    listed = {(row["kind"], row["id"]) for row in told.facts["affected"]}
    command = session.operations.get(kind="exec")
    assert listed == {("checkpoint", second.id), ("command", command.id)}
    assert told.facts["affected_counts"] == {"checkpoint": 1, "command": 1}
    assert str(told.facts["affected_digest"]) in told.message
    assert refused(session, first, "0" * 64).facts["affected_digest"] == told.facts["affected_digest"]
    assert runs(session)
    answer_of(ask_restore(session, first, str(told.facts["affected_digest"])))
    session.refresh_from_db()
    assert guest(session, "cat note") == "one"
    assert Checkpoint.objects.get(id=second.id).state == "published"


def test_a_command_that_comes_after_the_consent_is_not_left_unseen(world: World, session: Session) -> None:
    point = world.save(session)
    operation = ask_restore(session, point)
    command = world.ask_exec(session, "true")
    pid = pid_of(session)
    error = error_of(operation)
    assert (error["code"], error["stopped_at"], error["continuation"]) == ("ks_restore_scope", "stop", "none")
    assert [row["id"] for row in error["affected"]] == [command.id]  # type: ignore[attr-defined]
    session.refresh_from_db()
    assert (session.runtime_state, session.epoch, pid_of(session)) == ("running", 1, pid)
    succeeded(command)


def test_nothing_is_rolled_back_and_what_is_left_is_marked(world: World, session: Session) -> None:
    first = world.save(session)
    world.save(session)
    before = list(session.events.order_by("number").values_list("number", "type", "epoch"))
    succeeded(consented(session, first))
    session.refresh_from_db()
    lines = list(session.events.order_by("number"))
    assert [(row.number, row.type, row.epoch) for row in lines][: len(before)] == before
    assert [row.type for row in lines[len(before) :]] == ["session.restoring", "session.restored"]
    told = lines[-1].payload
    assert (told["reason"], told["checkpoint_id"], told["left_epoch"]) == ("wrong branch", first.id, 1)
    assert (told["event_watermark"], told["left_events"]) == (first.event_watermark, len(before))
    left = history.left_by_restores(session.id, after=0)
    marked = [row.number for row in lines if history.superseded(row, left)]
    assert marked == list(range(first.event_watermark + 1, len(before) + 1))


def test_a_machine_that_was_started_since_is_unsaved_work_of_its_own(world: World, session: Session) -> None:
    point = world.save(session, stop=True)
    world.resume(session)
    assert [row["id"] for row in refused(session, point).facts["affected"]] == ["epoch 2"]
    world.kill(session)
    answer_of(consented(session, point))
    assert live_machines() == [f"{session.id}.3"]


def test_content_that_is_refused_costs_no_running_machine(world: World, session: Session) -> None:
    scribble(session, 2, seed=1)
    point = world.save(session)
    forget_cache()
    (pack,) = store_directory().rglob(point.edges.get().pack_id)
    damage(pack)
    pid = pid_of(session)
    error = error_of(ask_restore(session, point))
    session.refresh_from_db()
    assert (error["code"], error["stopped_at"], error["runtime_state"]) == ("ks_integrity", "verify", "running")
    assert (pid_of(session), session.epoch) == (pid, 1)
    assert events(session)[-1] == "checkpoint.corrupt"


def test_another_pin_stops_it_before_anything_and_the_phase_names_it(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = world.save(session)

    def differs(*_: object) -> None:
        raise StackIncompatible("This host is not what the checkpoint was taken on; differing: kernel. Nothing was started.")

    monkeypatch.setattr(waking, "require_pin", differs)
    error = error_of(ask_restore(session, point))
    phase = error["phases"][0]  # type: ignore[index]
    assert (phase["phase"], phase["done"]) == ("check", False)
    assert phase["detail"].startswith("ks_stack_incompatible: ")
    assert error["stack_compatibility"] == "incompatible"
    assert runs(session)


def test_one_that_fails_after_the_machine_was_ended_leaves_the_session_parked_at_the_head_it_had(world: World, session: Session) -> None:
    first = world.save(session)
    second = world.save(session)
    operation = consented(session, first)
    world.faults.resume_fails = "no memory"
    error = error_of(operation)
    session.refresh_from_db()
    assert (session.runtime_state, session.park_reason, session.head_checkpoint_id) == ("parked", "restore_failed", second.id)
    assert (error["continuation"], error["stopped_at"], error["runtime_state"]) == ("none", "restore", "parked")
    assert live_machines() == []
    assert events(session)[-1] == "session.restore_failed"


@pytest.mark.parametrize("step", ["images_ready", "restore_taken_up"])
def test_a_cancel_is_heard_until_the_session_is_taken_up_and_refused_afterwards(world: World, session: Session, step: str) -> None:
    point = world.save(session)
    operation = ask_restore(session, point)
    refusals: list[str] = []

    def ask_cancel() -> None:
        try:
            cancel.cancel(operation)
        except Exception as error:
            refusals.append(getattr(error, "word", repr(error)))

    world.at(step, ask_cancel)
    done(operation)
    session.refresh_from_db()
    assert session.runtime_state == "running"
    if step == "images_ready":
        assert (operation.state, session.epoch, refusals) == ("cancelled", 1, [])
    else:
        assert (operation.state, session.epoch, refusals) == ("succeeded", 2, ["ks_not_cancellable"])
