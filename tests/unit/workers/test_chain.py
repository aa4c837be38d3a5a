"""When a machine's overlays are flattened, and what its note says of them before, meanwhile and afterwards."""

from pathlib import Path
from typing import cast

import pytest

from workers.host.note import read_note, write_note
from workers.machine.driver import Machine, MachineError
from workers.save.chain import MAX_OVERLAYS, keep_short


class Flattener:
    """A machine whose flattening ends as it is told, and sees the note as a worker that died in it would leave it."""

    def __init__(self, runtime: Path):
        self.runtime, self.flat, self.error = runtime, True, None
        self.noted: list[str] = []

    def flatten(self, overlays: tuple[Path, ...]) -> bool:
        self.noted.append(read_note(self.runtime)["overlay"])
        if self.error is not None:
            raise self.error
        return self.flat

    flat: bool
    error: MachineError | None


@pytest.fixture
def machine(tmp_path: Path) -> Flattener:
    write_note(tmp_path, checkpoint="newest", overlay="overlay-6.qcow2", images=["kept"])
    return Flattener(tmp_path)


def overlays(count: int = MAX_OVERLAYS - 1) -> tuple[Path, ...]:
    return tuple(Path(f"overlay-{number}.qcow2") for number in range(count))


def keep(machine: Flattener, published: str | None, count: int = MAX_OVERLAYS - 1) -> str:
    """What the note says afterwards."""
    keep_short(cast("Machine", machine), overlays(count), published)
    note = read_note(machine.runtime)
    assert (note["checkpoint"], note["images"]) == ("newest", ["kept"])
    return str(note["overlay"])


def test_a_chain_that_is_short_is_left_alone(machine: Flattener) -> None:
    assert keep(machine, "newest", MAX_OVERLAYS - 2) == "overlay-6.qcow2"
    assert machine.noted == []


def test_the_kept_overlay_is_what_the_published_checkpoint_holds(machine: Flattener) -> None:
    assert keep(machine, "newest") == "overlay-0.qcow2"
    assert machine.noted == ["overlay-6.qcow2"]


def test_a_flattening_that_did_not_end_leaves_the_note_as_it_was(machine: Flattener) -> None:
    machine.flat = False
    assert keep(machine, "newest") == "overlay-6.qcow2"


def test_a_machine_that_cannot_flatten_fails_nothing(machine: Flattener) -> None:
    machine.error = MachineError("machine_dead", "gone")
    assert keep(machine, "newest") == "overlay-6.qcow2"


def test_a_note_of_another_checkpoint_is_not_told_what_this_one_holds(machine: Flattener) -> None:
    assert keep(machine, "an older one, whose worker was held up") == "overlay-6.qcow2"


@pytest.mark.parametrize("flat", [True, False])
def test_what_no_checkpoint_holds_is_named_by_no_note_from_before_it_is_merged(machine: Flattener, flat: bool) -> None:
    write_note(machine.runtime, **{**read_note(machine.runtime), "overlay": "overlay-0.qcow2"})
    machine.flat = flat
    assert keep(machine, None) == ""
    assert machine.noted == [""]
