"""The overlays of a save are flattened when nobody reads them any more."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from checkpoints_app.models import Checkpoint
from checkpoints_app.store import BackendError, CheckpointWriter
from sessions_app.models import Session
from tests.integration.operations.world import World, error_of, runs
from workers.machine.driver import MachineError
from workers.machine.fake.machine import FakeMachine
from workers.save import chain


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The states of all checkpoints at each flattening."""
    found: list[list[str]] = []

    def flatten(_machine: FakeMachine, _overlays: Sequence[Path]) -> bool:
        found.append(list(Checkpoint.objects.order_by("created_at").values_list("state", flat=True)))
        raise MachineError("monitor_silent", "fault asked for")

    monkeypatch.setattr(chain, "MAX_OVERLAYS", 1)
    monkeypatch.setattr(FakeMachine, "flatten", flatten)
    return found


def test_a_live_save_flattens_when_it_is_published_and_does_not_mind_a_failure(
    world: World, session: Session, seen: list[list[str]]
) -> None:
    assert world.save(session).state == "published"
    assert seen == [["published"]]
    assert runs(session)


def test_a_save_that_ends_the_machine_does_not_flatten(world: World, session: Session, seen: list[list[str]]) -> None:
    world.save(session, stop=True)
    assert seen == []


def test_a_save_that_cannot_be_stored_flattens_too(
    world: World, session: Session, seen: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BackendError("the store does not answer")

    monkeypatch.setattr(CheckpointWriter, "finish", fail)
    error_of(world.ask_save(session))
    assert seen == [["uploading"]]
    assert runs(session)
