"""A host that comes back from the dead: its sessions have gone on elsewhere, and what it was at publishes nothing and keeps no machine."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint
from sessions_app.models import Operation, Session
from tests.integration.operations.world import (
    HOST,
    OTHER,
    World,
    done,
    guest,
    leftovers,
    live_machines,
    runs,
    runtime_directories,
    succeeded,
)
from tests.sabotage import mechanisms
from workers.fleet.lost import take_from_lost
from workers.host import turn
from workers.models import FleetWatch, Host
from workers.operations.observe import observe


@pytest.fixture(autouse=True)
def watched(world: World) -> None:
    """The fleet's turns have looked for long enough to judge a silence."""
    FleetWatch.objects.create(id=1, since=Now() - timedelta(hours=1), looked_at=Now())


def go_on_elsewhere(session: Session, be: Callable[[str], None]) -> None:
    """The host is not heard of; its session is resumed on the other one. Then this process is the old host's worker again."""
    Host.objects.filter(id=HOST).update(heartbeat_at=F("heartbeat_at") - timedelta(hours=1))
    assert take_from_lost() == 1
    be(OTHER)
    succeeded(Operation.objects.get(session=session, kind="resume"))
    be(HOST)
    session.refresh_from_db()


def comes_back() -> None:
    Host.objects.filter(id=HOST).update(heartbeat_at=Now())
    observe()


def test_the_session_goes_on_elsewhere_and_the_old_machine_is_ended_when_its_host_is_back(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    guest(session, "echo kept > note")
    world.save(session)
    guest(session, "echo lost > note")
    go_on_elsewhere(session, at_host)
    assert (session.runtime_state, session.host_id, session.epoch, session.failure) == ("running", OTHER, 3, None)
    assert live_machines() == [f"{session.id}.1"], "the old one knows nothing of it yet"
    comes_back()
    assert (live_machines(), runtime_directories()) == ([], [])
    at_host(OTHER)
    assert guest(session, "cat note") == "kept"
    assert take_from_lost() == 0
    assert Host.objects.get(id=HOST).lost_at is None


def test_a_host_that_was_retired_while_it_was_lost_ends_its_old_machines_as_its_workers_are_refused(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    world.save(session)
    go_on_elsewhere(session, at_host)
    Host.objects.filter(id=HOST).update(retired_at=Now())
    with pytest.raises(CommandError, match="was retired"):
        call_command("run_worker", "vm")
    assert (live_machines(), runtime_directories()) == ([], [])
    at_host(OTHER)
    assert runs(session)


def lost_in_mid_save(world: World, session: Session, be: Callable[[str], None]) -> Operation:
    """A save whose worker stands still right before it publishes, until its session runs elsewhere."""
    first = world.save(session)
    world.at("before_publish", lambda: go_on_elsewhere(session, be))
    save = done(world.ask_save(session))
    assert session.epoch == 3
    assert session.head_checkpoint_id == first.id
    return save


def test_a_save_that_was_at_work_when_its_host_was_lost_publishes_nothing(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    save = lost_in_mid_save(world, session, at_host)
    assert save.error is not None
    assert (save.state, save.error["code"]) == ("failed", "ks_host_lost")
    assert sorted(Checkpoint.objects.values_list("state", flat=True)) == ["failed", "published"]
    comes_back()
    assert (live_machines(), leftovers()) == ([], [])


def test_without_the_token_the_lost_host_would_publish(
    world: World, session: Session, at_host: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name, instead in mechanisms.anybody_publishes():
        monkeypatch.setattr(owner, name, instead)
    with pytest.raises(AssertionError):
        lost_in_mid_save(world, session, at_host)


def test_a_machine_of_an_epoch_that_was_left_is_ended_while_a_command_still_runs_in_it(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    world.save(session)
    with turn.joined(session.id) as mine:
        assert mine
        go_on_elsewhere(session, at_host)
        comes_back()
        assert live_machines() == []
    comes_back()
    assert runtime_directories() == []
