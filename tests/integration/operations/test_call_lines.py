"""A save draws a tick as it stops the machine; whoever goes on from it finds its window open before the machine runs."""

import pytest

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import key, rebuild_rows, storage
from checkpoints_app.store import load_manifest
from gateway_app.models import EpochOrigin, KeyBinding, SessionBudget, Steer, WindowEntry
from gateway_app.services import budget_watch, window
from sessions_app.models import Operation, Session
from sessions_app.services import fork as forks
from sessions_app.services import steps
from sessions_app.services.operation import Asked
from tests.integration.gateway.kept import call_row, key_of, spent
from tests.integration.operations.restoring import ask_restore
from tests.integration.operations.world import Died, World, done, live_machines, succeeded
from workers.operations.run import run


def tick(session: Session) -> int:
    return window.watermark(session.id)["calls"]


def windows(session: Session) -> dict[str, tuple[int, str]]:
    return {id_: (epoch, why) for id_, epoch, why in WindowEntry.objects.filter(session=session).values_list("call_id", "epoch", "why")}


def test_a_saves_tick_lies_between_the_calls_before_its_stop_and_after_it_and_its_manifest_has_it(world: World, session: Session) -> None:
    before = tick(session)
    saved = world.save(session)
    drawn = saved.watermarks["calls"]
    assert before < drawn < tick(session)
    manifest = load_manifest(storage.backend(), key.keys_to_read(session.account_id), session.account_id, saved.manifest_id)
    assert manifest.facts["watermarks"] == {"calls": drawn, "events": saved.event_watermark}
    Checkpoint.objects.all().delete()
    rebuilt = rebuild_rows.checkpoint(session.account_id, manifest)
    assert rebuilt is not None
    assert (rebuilt.watermarks, rebuilt.event_watermark) == ({"calls": drawn}, saved.event_watermark)


def test_a_resume_opens_the_window_of_the_epoch_that_it_begins_and_of_no_other(world: World, session: Session) -> None:
    call = call_row(session, tick(session))
    world.save(session, stop=True)
    seen = []
    world.at("loaded", lambda: seen.append(windows(session)))
    world.resume(session)
    assert seen == [{call.id: (2, "in_flight")}]
    assert EpochOrigin.objects.get().epoch == session.epoch == 2


def test_a_resume_whose_worker_died_leaves_a_window_only_to_the_epoch_that_it_had_begun(world: World, session: Session) -> None:
    call = call_row(session, tick(session))
    world.save(session, stop=True)
    asked = world.ask_resume(session)
    world.die_at("loaded")
    with pytest.raises(Died):
        run(asked.id)
    Operation.objects.filter(id=asked.id).update(lease_expires_at="2020-01-01T00:00:00Z")
    done(asked)
    session.refresh_from_db()
    assert (asked.state, session.epoch) == ("succeeded", 3)
    rows = WindowEntry.objects.filter(call=call).order_by("epoch").values_list("epoch", "why")
    assert list(rows) == [(2, "in_flight"), (3, "in_flight")]


def test_what_a_machine_asked_before_its_worker_died_is_in_the_next_attempts_window_too(world: World, session: Session) -> None:
    waited_for = call_row(session, tick(session))
    world.save(session, stop=True)
    asked = world.ask_resume(session)
    world.die_at("running")
    with pytest.raises(Died):
        run(asked.id)
    session.refresh_from_db()
    made = call_row(session, tick(session), tick(session), epoch=session.epoch)
    Operation.objects.filter(id=asked.id).update(lease_expires_at="2020-01-01T00:00:00Z")
    done(asked)
    assert {call: why for call, (epoch, why) in windows(session).items() if epoch == 3} == {waited_for.id: "in_flight", made.id: "lost"}


def test_a_restore_opens_its_window_before_the_machine_runs_and_no_machine_of_the_epoch_before_is_left(
    world: World, session: Session
) -> None:
    call = call_row(session, tick(session))
    saved = world.save(session)
    seen = []
    world.at("loaded", lambda: seen.append((windows(session), live_machines())))
    done(ask_restore(session, saved))
    assert seen == [({call.id: (2, "in_flight")}, [f"{session.id}.2"])]


def test_a_fork_passes_on_line_keys_limit_and_steers(world: World, session: Session) -> None:
    made = key_of(session.account)
    KeyBinding.objects.create(session=session, provider="anthropic", key=made)
    spent(session, spent_tokens=500, microusd=12_000_000)
    call = call_row(session, tick(session))
    asked = forks.ask(session, children=2, checkpoint_id=None, asked=Asked(), steers=["left", "right"])
    run(asked.id)
    children = forks.children_of(asked)
    for child, text in zip(children, ("left", "right"), strict=True):
        for resume in Operation.objects.filter(session=child):
            succeeded(resume)
        child.refresh_from_db()
        assert windows(child) == {call.id: (1, "in_flight")}
        assert KeyBinding.objects.get(session=child).key_id == made.id
        budget = SessionBudget.objects.get(session=child)
        assert (budget.microusd, budget.spent_tokens) == (12_000_000, 0)
        assert steps.unseal.call(child.account_id, bytes(Steer.objects.get(session=child).sealed_text)) == text.encode()
    assert not Steer.objects.filter(session=session).exists()


def test_over_a_budget_the_machine_is_saved_and_parked_and_says_why(world: World, session: Session) -> None:
    spent(session, spent_tokens=session.budget_tokens)
    assert budget_watch.run_due() == 1
    succeeded(Operation.objects.get(kind="checkpoint"))
    session.refresh_from_db()
    assert (session.runtime_state, session.park_reason, session.checkpoints.get().state) == ("parked", "funds_interlock", "published")
