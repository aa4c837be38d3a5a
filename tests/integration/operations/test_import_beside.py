"""An import beside what the account has already, and beside an erasure of it; and exports that their own maker has made up."""

from dataclasses import replace
from pathlib import Path

import pytest

from checkpoints_app.models import Checkpoint, Pack
from checkpoints_app.services import export
from checkpoints_app.services.import_ import Imported, import_
from checkpoints_app.services.import_facts import describe
from checkpoints_app.states import PackState
from checkpoints_app.store import SecretKey
from checkpoints_app.store.export_frames import ExportHead
from checkpoints_app.store.export_reader import ExportReader
from sessions_app.errors import Invalid
from sessions_app.models import Session
from tests.integration.operations.world import World, forget_cache, guest, objects, scribble

KEY = SecretKey(bytes(range(32)))


@pytest.fixture
def saved(world: World, session: Session) -> Checkpoint:
    guest(session, "echo carried > note")
    scribble(session, 2, seed=1)
    return world.save(session, stop=True)


@pytest.fixture
def file(saved: Checkpoint, tmp_path: Path) -> Path:
    path = tmp_path / "export"
    export.export(saved.id, path, KEY)
    return path


@pytest.fixture
def head(file: Path) -> ExportHead:
    with open(file, "rb") as opened:
        return ExportReader(opened, KEY).head


def test_content_that_the_account_has_is_not_stored_again(world: World, file: Path, saved: Checkpoint, session: Session) -> None:
    with open(file, "rb") as opened:
        arrived = Session.objects.get(id=import_(world.account, opened, KEY).session_id)
    assert arrived.checkpoints.get().unique_bytes == 0
    world.delete(session)
    forget_cache()
    world.resume(arrived)
    assert guest(arrived, "cat note") == "carried"


def test_content_that_is_being_erased_meanwhile_is_stored_whole(world: World, file: Path, saved: Checkpoint) -> None:
    stored: list[str] = []

    def erase_under_it(step: str) -> None:
        if step == "stored" and not stored:
            Pack.objects.filter(account=world.account).update(state=PackState.CONDEMNED)
        if step == "stored":
            stored.append(step)

    with open(file, "rb") as opened:
        arrived = import_(world.account, opened, KEY, step=erase_under_it)
    assert len(stored) == 2
    checkpoint = Checkpoint.objects.get(id=arrived.checkpoint_id)
    assert checkpoint.unique_bytes
    assert not checkpoint.edges.exclude(pack__state=PackState.LIVE).exists()
    manifests = [name for name in objects() if "manifests" in name]
    assert len(manifests) == 2  # the first checkpoint's and this one's: the attempt that was given up left none


def test_two_imports_of_one_file_at_once_end_with_one_session(world: World, file: Path) -> None:
    """The second has read the whole file when the first one commits."""
    first: list[Imported] = []

    def another(step: str) -> None:
        if step == "stored" and not first:
            first.append(Imported("", "", "", repeated=False))
            with open(file, "rb") as opened:
                first.append(import_(world.account, opened, KEY))

    before = Session.objects.count()
    with open(file, "rb") as opened:
        second = import_(world.account, opened, KEY, step=another)
    assert second.repeated
    assert second.session_id == first[1].session_id
    assert Session.objects.count() == before + 1


BAD = {
    "a pin that is not of its facts": {"pin": "0" * 64},
    "pin facts that are no texts": {"pin_facts": {"hypervisor": 7}},
    "no machine": {"machine": None},
    "a machine of another size than its memory": {"machine": {"memory_bytes": 256 << 20, "cpus": 1, "architecture": "x86_64"}},
    "a machine of a hostile size": {"machine": {"memory_bytes": 1 << 50, "cpus": 1, "architecture": "x86_64"}},
    "a machine of no whole MiB": {"machine": {"memory_bytes": (128 << 20) + 4096, "cpus": 1, "architecture": "x86_64"}},
    "a machine with no number of cpus": {"machine": {"memory_bytes": 128 << 20, "cpus": True, "architecture": "x86_64"}},
    "another architecture than its image's": {"machine": {"memory_bytes": 128 << 20, "cpus": 1, "architecture": "vax"}},
    "an image that is no text": {"image": ["x"]},
}


@pytest.mark.parametrize("facts", BAD.values(), ids=BAD.keys())
def test_an_export_with_made_up_facts_is_refused_before_anything_is_stored(head: ExportHead, facts: dict[str, object]) -> None:
    describe(head)
    with pytest.raises(Invalid, match=r"Nothing was imported|No session was started"):
        describe(replace(head, facts={**head.facts, **facts}))


def test_images_that_are_not_the_machines_are_refused(head: ExportHead) -> None:
    memory, *others = head.images
    longer, over_a_disk = replace(memory, length_bytes=1 << 38), replace(memory, base="image " + "a" * 64)
    for images in ((longer, *others), (over_a_disk, *others), (memory,), (*head.images, replace(memory, name="disk"))):
        with pytest.raises(Invalid, match="are not those of its machine"):
            describe(replace(head, images=images))
