"""Gate: an erasure that a power loss ends keeps what lives and, done again, leaves nothing that is dead.

Whatever was not synced is lost: bytes, names, and the removal of names. Dying after every system call, each time with all of that lost,
is every prefix of what a disk may have kept: a call that was kept is one that the next death comes after. PostgreSQL keeps its own word.
"""

from pathlib import Path

import pytest

from checkpoints_app.services import storage
from checkpoints_app.store import LocalBackend, StoreError
from tests.gates.erasure import victim_power
from tests.gates.erasure.power import Disk
from tests.gates.test_gate_store_erase import STEPS, Scene
from tests.support.shelf import Shelf
from tests.support.shelf_fixtures import shelf, store
from tests.support.sparse import sparse

__all__ = ["shelf", "store"]

CALLS = {"link": 2, "unlink": 4, "fsync": 16}  # so many of each are in the erasure of the scene
MOMENTS = [*STEPS, *((call, number) for call, most in CALLS.items() for number in range(1, most + 1))]


class Power:
    def __init__(self, shelf: Shelf, directory: Path):
        self.scene = Scene(shelf)
        backend = storage.backend()
        assert isinstance(backend, LocalBackend)
        self.disk = Disk(backend.root, directory / "journal", directory / "shelter")

    def die(self, step: str, times: int, sabotage: str = "none") -> int:
        return victim_power.erasing(self.scene.erased.id, self.disk, step, times, sabotage)

    def judge(self) -> None:
        self.disk.lose_power()
        storage.remove_abandoned()
        try:
            self.scene.judge()
        except StoreError as error:
            raise AssertionError(f"what lives cannot be read: {error}") from error


@pytest.mark.gate("store", "an erasure that a power loss ends keeps what lives and, done again, leaves nothing that is dead")
@pytest.mark.parametrize(("step", "times"), sparse(MOMENTS, 2))
def test_the_power_is_lost_at_this_moment(shelf: Shelf, tmp_path: Path, evidence: dict[str, object], step: str, times: int) -> None:
    power = Power(shelf, tmp_path)
    assert power.die(step, times) == -9
    power.judge()
    evidence |= {"lost at": f"{step} {times}"}


@pytest.mark.parametrize("call", sparse(CALLS, 2))
def test_the_gate_has_every_call_that_the_erasure_makes(shelf: Shelf, tmp_path: Path, call: str) -> None:
    power = Power(shelf, tmp_path)
    assert power.die(call, CALLS[call] + 1) == 0
    power.judge()


@pytest.mark.parametrize(
    ("sabotage", "step"), [("bytes_not_synced", "closed"), ("names_not_synced", "pack_moved"), ("removals_not_synced", "closed")]
)
def test_the_gate_notices(shelf: Shelf, tmp_path: Path, sabotage: str, step: str) -> None:
    power = Power(shelf, tmp_path)
    assert power.die(step, 1, sabotage) == -9
    with pytest.raises(AssertionError):
        power.judge()
