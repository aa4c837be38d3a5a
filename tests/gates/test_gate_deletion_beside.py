"""Gate: a session's deletion is accepted beside whatever is at work on it, and final: that publishes, starts and leaves nothing."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import orphans
from sessions_app.models import Operation, Session
from sessions_app.services import session_erasure
from tests.integration.checkpoints.test_orphans import days_pass
from tests.integration.operations.conftest import doorbells, host, world
from tests.integration.operations.forking import ask_fork
from tests.integration.operations.restoring import ask_restore
from tests.integration.operations.test_delete import hours_pass
from tests.integration.operations.world import (
    Died,
    World,
    done,
    events,
    forget_cache,
    leftovers,
    live_machines,
    objects,
    runtime_directories,
    succeeded,
)
from workers.cache import files
from workers.crash import BOOT_STEPS, FORK_STEPS, RESTORE_STEPS, RESUME_STEPS, SAVE_STEPS
from workers.host import machines
from workers.host.identity import cache_directory
from workers.machine.fake.machine import FakeMachine
from workers.operations.observe import observe

__all__ = ["doorbells", "host", "world"]

#: `./keepstate prove` deletes at every step; the whole suite is content with fewer.
EVERY = int(os.environ.get("KEEPSTATE_EVERY_STEP", "3"))
EXEC_STEPS = ("command_begins", "command_ended")
_IN_THE_WINDOW = {"overlay_prepared", "stopped", "devices_saved", "disk_switched", "pages_copied", "continued"}  # QEMU's own
_SAVE = [step for step in SAVE_STEPS if step not in {*_IN_THE_WINDOW, "published"}]  # published, a save that does not park has ended
CASES = [
    *(("boot", step) for step in BOOT_STEPS),
    *(("checkpoint", step) for step in _SAVE),
    ("parking", "published"),
    *(("resume", step) for step in RESUME_STEPS),
    *(("fork", step) for step in FORK_STEPS),
    *(("exec", step) for step in EXEC_STEPS),
    *(("restore", step) for step in RESTORE_STEPS),
]


class Scene:
    """An operation that is asked for, and a deletion that comes when it has reached a step."""

    def __init__(self, world: World, kind: str, monkeypatch: pytest.MonkeyPatch):
        self.world = world
        ask: dict[str, Callable[[Session], Operation]] = {
            "checkpoint": world.ask_save,
            "parking": lambda session: world.ask_save(session, stop=True),
            "resume": world.ask_resume,
            "fork": lambda session: ask_fork(session, 1),
            "exec": lambda session: world.ask_exec(session, "sh", "-c", "echo said"),
            "restore": lambda session: ask_restore(session, world.save(session)),
        }
        if kind == "boot":
            self.operation = world.ask_boot()
            self.session = self.operation.session
        else:
            self.session = world.boot()
            if kind == "resume":
                world.save(self.session, stop=True)
                forget_cache()
            self.operation = ask[kind](self.session)
        self._watch_commands(monkeypatch)
        self.deletion: Operation | None = None

    def _watch_commands(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run, steps = FakeMachine.exec, self.world.steps

        def watched(machine: FakeMachine, argv: list[str], **bounds: Any) -> Any:
            steps.pop("command_begins", lambda: None)()
            result = run(machine, argv, **bounds)
            steps.pop("command_ended", lambda: None)()
            return result

        monkeypatch.setattr(FakeMachine, "exec", watched)

    def delete_at(self, step: str, *, dying: bool) -> None:
        """The deletion is asked for there, and the worker dies in that step or goes on."""

        def act() -> None:
            self.deletion = self.world.ask_delete(self.session)
            if dying:
                raise Died

        self.world.at(step, act)
        if dying:
            with pytest.raises(Died):
                done(self.operation)
        else:
            done(self.operation)
        assert self.deletion is not None, f"{step} was reached"
        succeeded(self.deletion)

    def judge(self) -> None:
        self.session.refresh_from_db()
        self.operation.refresh_from_db()
        assert (self.session.runtime_state, self.operation.state) == ("deleted", "cancelled")
        assert (self.operation.response, self.operation.error, self.operation.parameters) == (None, None, {})
        observe()  # as every host does all the time: what a worker that died has left
        weeks_pass()
        for child in Session.objects.filter(parent_id=self.session.id):
            assert child.runtime_state == "parked", "a fork lives on"
            self.world.delete(child)
        assert (live_machines(), runtime_directories(), objects(), leftovers()) == ([], [], {}, [])
        assert events(self.session) == ["session.deleted"]
        assert not Checkpoint.objects.exclude(state__in=["erased", "failed"]).exists()
        if (cache_directory() / "compared").exists():
            hours_pass()
            observe()
        kinds = (files.MEMORY, files.DISK, files.DEVICES)
        assert [path.name for kind in kinds for path in (cache_directory() / kind).glob("*") if path.suffix != ".lock"] == []


@pytest.mark.gate("deletion", "a deletion beside any operation, at any step of it, is final: nothing is published, started or left")
@pytest.mark.parametrize(("kind", "step"), CASES[:: (EVERY + 1) // 2])
def test_a_deletion_beside(world: World, monkeypatch: pytest.MonkeyPatch, evidence: dict[str, Any], kind: str, step: str) -> None:
    scene = Scene(world, kind, monkeypatch)
    scene.delete_at(step, dying=False)
    scene.judge()
    evidence |= {"beside": f"{kind} at {step}", "epoch left": scene.session.epoch}


@pytest.mark.gate("deletion", "a deletion beside an operation whose worker was killed at any step leaves nothing either")
@pytest.mark.parametrize(("kind", "step"), CASES[EVERY // 2 :: EVERY])
def test_a_deletion_beside_a_dying_worker(
    world: World, monkeypatch: pytest.MonkeyPatch, evidence: dict[str, Any], kind: str, step: str
) -> None:
    scene = Scene(world, kind, monkeypatch)
    scene.delete_at(step, dying=True)
    scene.judge()
    evidence |= {"beside": f"{kind} killed at {step}", "epoch left": scene.session.epoch}


def weeks_pass() -> None:
    """What a save that was killed has put into the store and never published is an orphan, which lies in quarantine for a while."""
    for _ in range(3 if objects() else 0):
        orphans.sweep()
        days_pass(10)


@pytest.mark.parametrize("fault", ["a machine is left", "what was said in operations is left"])
def test_the_gate_notices(world: World, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    scene = Scene(world, "exec", monkeypatch)
    if fault == "a machine is left":
        monkeypatch.setattr(machines, "end_all", lambda *_, **__: None)
        monkeypatch.setattr("workers.operations.observe.sweep_leftovers", lambda: None)
    else:
        monkeypatch.setattr(session_erasure, "_SILENT", {"progress": {}})
    scene.delete_at("command_ended", dying=False)
    with pytest.raises(AssertionError):
        scene.judge()
