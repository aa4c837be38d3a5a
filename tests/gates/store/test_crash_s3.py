"""Claim: killed at any step of a save to an S3 server, or in the middle of an upload, the previous checkpoint restores to the byte.

And nothing half made is shown as whole.
"""

import secrets
from pathlib import Path

import pytest

from tests.gates.store.aftermath import Scene, judge, run_victim, set_scene
from tests.gates.store.test_crash import DEATHS, FINISHED
from tests.gates.store.victim_s3 import HALF_SENT, HALF_SHOWN
from tests.support.seaweed import S3Server
from tests.support.sparse import sparse

pytestmark = pytest.mark.gate


@pytest.fixture
def scene(s3_server: S3Server, tmp_path: Path) -> Scene:
    return set_scene(s3_server.place(f"crash-{secrets.token_hex(8)}"), tmp_path / "journal")


@pytest.mark.parametrize(("step", "times"), sparse([*DEATHS, (HALF_SENT, 1), (HALF_SENT, 5)], 4))
def test_a_save_to_s3_killed_at_this_step_leaves_the_previous_checkpoint_and_nothing_half_made(step: str, times: int, scene: Scene) -> None:
    assert run_victim(scene, step, times) == -9
    judge(scene, finished=step in FINISHED)


def test_a_save_to_s3_that_is_not_killed_is_whole(scene: Scene) -> None:
    assert run_victim(scene, "no such step") == 0
    judge(scene, finished=True)


@pytest.mark.parametrize(
    ("sabotage", "step", "finished"),
    sparse(
        [
            ("said_before_sent", "manifest_durable", True),
            ("manifest_before_packs", "manifest_durable", True),
            ("sent_in_two_objects", HALF_SHOWN, False),
        ],
        3,
    ),
)
def test_the_gate_notices_a_save_to_s3_that_is_not_what_it_says(sabotage: str, step: str, finished: bool, scene: Scene) -> None:
    assert run_victim(scene, step, sabotage=sabotage) == -9
    with pytest.raises(AssertionError, match=r"is lost|not whole"):
        judge(scene, finished=finished)
