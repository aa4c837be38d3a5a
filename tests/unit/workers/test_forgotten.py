"""Caches of a host follow the database: what was erased anywhere leaves, what runs or is needed stays."""

import os
import time
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from checkpoints_app.models import Checkpoint, Pack
from checkpoints_app.states import CheckpointState
from checkpoints_app.store import object_key
from checkpoints_app.store.seal import Kind
from sessions_app.models import Session
from tests.support.fleet import Tenant, checkpoint_row, session_row
from workers.cache import files
from workers.cache.forgotten import drop_forgotten
from workers.cache.packs import PackCache
from workers.cache.store import evict_packs, forget_pack, packs_directory
from workers.host.identity import cache_directory, machines_directory
from workers.host.note import write_note

OLD = 3600.0


def image(kind: str, name: str) -> Path:
    path = files.place(kind, name)
    path.write_bytes(b"memory")
    past = time.time() - OLD
    os.utime(path, (past, past))
    return path


@pytest.fixture
def checkpoint(host: Path, owner: Tenant) -> Checkpoint:
    """The newest of its session."""
    return checkpoint_row(session_row(owner.account), memory_root="a" * 64, disk_root="b" * 64, content_digest="c" * 64)


def test_images_of_a_checkpoint_that_was_erased_elsewhere_leave(checkpoint: Checkpoint) -> None:
    names = {files.MEMORY: "a" * 64, files.DISK: "b" * 64 + "-0123", files.DEVICES: "c" * 64, "touched": checkpoint.id}
    gone = [image(kind, name) for kind, name in names.items()]
    Checkpoint.objects.filter(id=checkpoint.id).update(state=CheckpointState.ERASED)
    assert drop_forgotten() == 4
    assert not any(path.exists() for path in gone)


def test_images_that_a_checkpoint_needs_stay_and_so_does_one_that_runs_and_one_that_is_new(checkpoint: Checkpoint) -> None:
    needed = image(files.MEMORY, "a" * 64)
    running, new = image(files.MEMORY, "d" * 64), image(files.MEMORY, "e" * 64)
    (machines_directory() / "s.1").mkdir(parents=True)
    write_note(machines_directory() / "s.1", images=["d" * 64])
    os.utime(new)
    assert drop_forgotten() == 0
    assert needed.exists()
    assert running.exists()
    assert new.exists()


def test_images_of_an_older_checkpoint_leave_and_the_record_of_its_resume_stays(checkpoint: Checkpoint) -> None:
    older = checkpoint_row(checkpoint.session, memory_root="8" * 64, disk_root="9" * 64, content_digest="7" * 64)
    Session.objects.filter(id=checkpoint.session_id).update(head_checkpoint_id=checkpoint.id)
    gone = [image(kind, name) for kind, name in ((files.MEMORY, "8" * 64), (files.DISK, "9" * 64 + "-0123"), (files.DEVICES, "7" * 64))]
    record, newest = image("touched", older.id), image(files.MEMORY, "a" * 64)
    assert drop_forgotten() == 3
    assert not any(path.exists() for path in gone)
    assert record.exists()
    assert newest.exists()


def test_the_database_is_not_asked_at_every_look(checkpoint: Checkpoint) -> None:
    image(files.MEMORY, "a" * 64)
    drop_forgotten()
    left = image(files.MEMORY, "f" * 64)
    assert drop_forgotten() == 0
    assert left.exists()
    os.utime(cache_directory() / "compared", (0, 0))
    assert drop_forgotten() == 1


def pack(owner: Tenant, letter: str, generation: int = 0, *, row: bool = True) -> str:
    """A pack on this host, an hour old; with its row."""
    key = object_key(owner.account.id, Kind.PACK, letter * 64, generation)
    kept = PackCache(packs_directory())
    assert kept.keep(key, [b"x" * 1000])
    past = time.time() - OLD
    os.utime(packs_directory() / key, (past, past))
    if row:
        Pack.objects.create(id=letter * 64, account=owner.account, stored_bytes=1000, unit_count=1, units=b"", generation=0)
    return key


def test_packs_that_no_row_names_at_their_generation_leave(host: Path, owner: Tenant) -> None:
    needed, erased = pack(owner, "a"), pack(owner, "b", row=False)
    rewritten = pack(owner, "c", generation=1)
    evict_packs()
    assert set(PackCache(packs_directory()).kept()) == {needed}, (erased, rewritten)


def test_the_least_recently_used_pack_leaves_first_when_there_is_too_much(host: Path, owner: Tenant, settings: Settings) -> None:
    old, new = pack(owner, "a"), pack(owner, "b")
    os.utime(packs_directory() / new)
    evict_packs()
    settings.KEEPSTATE_PACK_CACHE_GIB = _Bytes(1500)
    evict_packs()
    assert set(PackCache(packs_directory()).kept()) == {new}, old


def test_a_pack_that_a_process_of_this_host_erases_is_gone_at_once(host: Path, owner: Tenant) -> None:
    key = pack(owner, "a")
    forget_pack(key)
    forget_pack(key)
    assert list(PackCache(packs_directory()).kept()) == []


class _Bytes(int):
    """A bound in bytes, where the setting is in GiB."""

    def __lshift__(self, other: int) -> int:
        return int(self)
