"""Claim: killed at any step of a save, with or without a power loss, the store keeps the previous checkpoint to the byte.

And nothing half made is shown as whole.
"""

from pathlib import Path

import pytest

from checkpoints_app.store.writer import STEPS
from tests.gates.store.aftermath import copied, judge, lose_power, run_victim, set_scene

pytestmark = pytest.mark.gate

REPEATED = ("pack_written", "packs.object_named")
FINISHED = ("manifest.objects_durable", "manifest_durable")
DEATHS = [*((step, 1) for step in STEPS), *((step, 4) for step in REPEATED)]


@pytest.mark.parametrize(("step", "times"), DEATHS)
def test_a_save_killed_at_this_step_leaves_the_previous_checkpoint_and_nothing_half_made(step: str, times: int, tmp_path: Path) -> None:
    scene = set_scene(tmp_path / "store", tmp_path / "journal")
    assert run_victim(scene, step, times) == -9
    finished = step in FINISHED
    judge(copied(scene, tmp_path / "death alone"), finished=finished)
    lose_power(scene)
    judge(scene, finished=finished)


def test_a_save_that_is_not_killed_survives_a_power_loss(tmp_path: Path) -> None:
    scene = set_scene(tmp_path / "store", tmp_path / "journal")
    assert run_victim(scene, "no such step") == 0
    lose_power(scene)
    judge(scene, finished=True)


@pytest.mark.parametrize("sabotage", ["nothing_synced", "named_before_synced", "directories_not_synced"])
def test_the_gate_notices_a_save_that_calls_durable_what_is_not(sabotage: str, tmp_path: Path) -> None:
    scene = set_scene(tmp_path / "store", tmp_path / "journal")
    assert run_victim(scene, "manifest_durable", sabotage=sabotage) == -9
    lose_power(scene)
    with pytest.raises(AssertionError, match=r"is lost|not whole"):
        judge(scene, finished=True)


def test_the_gate_notices_a_manifest_that_comes_before_its_packs(tmp_path: Path) -> None:
    scene = set_scene(tmp_path / "store", tmp_path / "journal")
    assert run_victim(scene, "manifest_durable", sabotage="manifest_before_packs") == -9
    with pytest.raises(AssertionError, match="not whole"):
        judge(scene, finished=True)
