"""Gate: an erasure killed at any step loses nothing that lives, and its repetition leaves nothing that is dead."""

import pytest

from checkpoints_app.models import ErasureReceipt
from checkpoints_app.services import account_erase, erase, receipt, storage
from checkpoints_app.store import MissingObjectError
from sessions_app.models import Session
from tests.gates.erasure import victim
from tests.store_kit import Content, content
from tests.support.shelf import UNITS, Shelf
from tests.support.shelf_fixtures import on_each, shelf, store

__all__ = ["shelf", "store"]

IMAGE = content(UNITS, 1)
STEPS = [
    ("marked", 1),
    ("pack_edges_dropped", 1),
    ("manifest_edges_dropped", 1),
    ("erased_mark_put", 1),
    ("pack_rewrite_decided", 1),
    ("rewrite_verified", 1),
    ("rewrite_durable", 1),
    ("pack_moved", 1),
    ("pack_clear_decided", 1),
    ("pack_object_deleted", 1),
    ("pack_object_deleted", 2),
    ("pack_delete_decided", 1),
    ("pack_row_deleted", 1),
    ("closed", 1),
]
S3_STEPS = [  # those before or after which the store is asked; between the others only the database is
    *(("erased_mark_put", 1), ("rewrite_durable", 1), ("pack_moved", 1)),
    *(("pack_object_deleted", 1), ("pack_object_deleted", 2), ("pack_row_deleted", 1)),
]
ACCOUNT_STEPS = [("condemned", 1), ("object_deleted", 2), ("key_object_deleted", 1), ("key_row_deleted", 1), ("rows_deleted", 1)]
ACCOUNT_S3_STEPS = [("object_deleted", 2), ("key_object_deleted", 1)]
SABOTAGES = [
    ("rows_go_before_objects", "pack_object_deleted", 99),
    ("shared_packs_stay_whole", "closed", 1),
    ("old_generations_stay", "closed", 1),
    ("objects_go_before_the_row_moves", "closed", 1),
    ("ancestors_are_not_kept", "closed", 1),
]
S3_SABOTAGES = [one for one in SABOTAGES if "object" in one[0] or "generations" in one[0]]


def changed(image: Content, start: int, count: int, seed: int) -> Content:
    after = image.copy()
    after[start : start + count] = content(count, seed)
    return after


class Scene:
    """The erased checkpoint shares one pack in part with its child and one whole with a fork; one pack is its own."""

    def __init__(self, shelf: Shelf):
        self.shelf = shelf
        self.session = shelf.session()
        self.erased = shelf.save(self.session, IMAGE)
        self.child = shelf.save(self.session, changed(IMAGE, 4, 36, 2), parent=self.erased)
        self.fork = shelf.save(shelf.session(), changed(changed(IMAGE, 16, 32, 3), 2, 1, 4), parent=self.erased)

    def die(self, step: str, times: int = 1, sabotage: str = "none") -> int:
        return victim.erasing("checkpoint", self.erased.id, step, times, sabotage)

    def judge(self) -> None:
        """What lives is whole after the death, after the repetition, and for the next save; what is dead is gone."""
        shelf = self.shelf
        shelf.assert_whole(self.child, self.fork)
        erase.erase_checkpoint(self.erased)
        shelf.assert_whole(self.child, self.fork)
        shelf.assert_exact()
        dead = {unit.tobytes() for unit in IMAGE} - {unit.tobytes() for row in (self.child, self.fork) for unit in shelf.contents[row.id]}
        assert dead
        assert shelf.stored_plain().isdisjoint(dead), "content of an erased checkpoint is in the store"
        shelf.assert_whole(shelf.save(self.session, changed(shelf.contents[self.child.id], 1, 9, 5), parent=self.child))


@pytest.mark.gate("store", "an erasure killed at any step loses nothing that lives, and repeated leaves nothing that is dead")
@pytest.mark.parametrize(("store", "step", "times"), on_each(STEPS, S3_STEPS), indirect=["store"])
def test_an_erasure_killed_at_this_step(shelf: Shelf, evidence: dict[str, object], step: str, times: int) -> None:
    scene = Scene(shelf)
    before = len(list(shelf.object_names()))
    assert scene.die(step, times) == -9
    after_death = len(list(shelf.object_names()))
    scene.judge()
    evidence |= {"killed at": f"{step} {times}", "objects before": before, "after the death": after_death}


@pytest.mark.parametrize(("store", "sabotage", "step", "times"), on_each(SABOTAGES, S3_SABOTAGES), indirect=["store"])
def test_the_gate_notices(shelf: Shelf, sabotage: str, step: str, times: int) -> None:
    scene = Scene(shelf)
    if sabotage == "rows_go_before_objects":
        dying_between_row_and_object(scene)
    else:
        assert scene.die(step, times, sabotage) != 0
    with pytest.raises((AssertionError, MissingObjectError)):
        scene.judge()


def dying_between_row_and_object(scene: Scene) -> None:
    """The fault that this order would have: killed after the row went, nobody knows of the object."""
    from unittest.mock import patch

    from checkpoints_app.models import Pack

    class Died(BaseException):
        pass

    def row_first(account_id: str, pack_id: str, generation: int = 0) -> None:
        if Pack.objects.filter(id=pack_id, state="condemned").delete()[0]:
            raise Died

    with patch.object(storage, "delete_pack", row_first), pytest.raises(Died):
        erase.erase_checkpoint(scene.erased)


@pytest.mark.gate("store", "an account's erasure killed at any step ends, repeated, with nothing of it stored and one genuine receipt")
@pytest.mark.parametrize(("store", "step", "times"), on_each(ACCOUNT_STEPS, ACCOUNT_S3_STEPS), indirect=["store"])
def test_an_account_erasure_killed_at_this_step(shelf: Shelf, evidence: dict[str, object], step: str, times: int) -> None:
    Scene(shelf)
    count = len(list(storage.backend().list("")))
    Session.objects.update(runtime_state="deleted")
    assert victim.erasing("account", shelf.account.id, step, times) == -9
    assert not ErasureReceipt.objects.exclude(signature="").exists(), "a receipt before the end"
    signed = account_erase.erase_account(shelf.account)
    assert list(storage.backend().list("")) == []
    assert ErasureReceipt.objects.count() == 1
    assert receipt.is_genuine(signed)
    assert signed.object_count == count
    evidence |= {"killed at": f"{step} {times}", "objects erased": count}
