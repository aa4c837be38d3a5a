"""Machines that run while their memory still streams in: on verified bytes alone, unpublished until all are, lost no worse than others."""

import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from django.conf import settings as django_settings
from pytest_django.fixtures import Settings

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import erase, key, storage
from checkpoints_app.store import load_manifest
from sessions_app.models import Session
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from tests.integration.operations.forking import ask_fork, created, resumes
from tests.integration.operations.lazy_kit import (
    PAGE,
    directories,
    hold_stream,
    memory_of,
    memory_pack,
    pages_of,
    serving_pid,
    state,
)
from tests.integration.operations.world import (
    Died,
    World,
    damage,
    done,
    error_of,
    expire,
    forget_cache,
    guest,
    live_machines,
    machine_of,
    scribble,
    succeeded,
)
from tests.support.lazy_store import flip
from tests.support.waiting import until, until_gone
from workers.cache import files
from workers.cache.evict import evict
from workers.host import lazy
from workers.lazy import start
from workers.operations import verification
from workers.operations.observe import observe
from workers.operations.settle import settle_host
from workers.restore import touched

pytestmark = pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="needs /dev/fuse")

MIB = 40  # three packs of memory, of which the middle one holds nothing else
FIRST = 8 << 20 >> 12  # the page at which scribble begins


@pytest.fixture
def host(host: Path, settings: Settings) -> Iterator[Path]:
    settings.KEEPSTATE_RESUME = "lazy"
    yield host
    for directory in lazy.lazy_directory().glob("*"):
        if directory.is_dir():
            lazy.end(directory)


@pytest.fixture
def parked(world: World, session: Session) -> Checkpoint:
    """A session that is parked on a host that has nothing of it assembled."""
    guest(session, "echo kept > note")
    scribble(session, MIB, seed=1)
    checkpoint = world.save(session, stop=True)
    forget_cache()
    return checkpoint


@cache
def scribbled() -> bytes:
    return np.random.default_rng(1).bytes(MIB << 20)


def verified(session: Session) -> bool:
    settle_host()
    session.refresh_from_db()
    return not session.verifying


def test_a_machine_runs_before_its_memory_is_there_and_finds_every_byte_of_it(world: World, session: Session, parked: Checkpoint) -> None:
    go_on = hold_stream(world, parked)
    operation = world.resume(session)
    assert operation.response is not None
    assert (operation.response["images_from"], operation.response["verifying"]) == ("host", True)
    assert session.verifying
    assert guest(session, "cat note") == "kept"
    assert state(session) == "streaming"
    go_on()
    assert memory_of(session, FIRST, MIB << 8) == scribbled()
    until(lambda: verified(session), 30, "all is verified")


def test_when_all_is_verified_the_image_is_an_ordinary_one_of_the_cache(world: World, session: Session, parked: Checkpoint) -> None:
    world.resume(session)
    until(lambda: verified(session), 30, "all is verified")
    assert files.lookup(files.MEMORY, parked.memory_root) is not None
    world.kill(session)
    again = world.resume(session).response
    assert again is not None
    assert (again["images_from"], again["verifying"]) == ("cached", False)
    assert directories() == []


def test_a_request_can_ask_for_the_whole_image_first(world: World, session: Session, parked: Checkpoint) -> None:
    operation = succeeded(sessions.resume(session, checkpoint_id=None, mode="whole", asked=Asked()))
    assert operation.response is not None
    assert not operation.response["verifying"]
    assert directories() == []


def test_a_byte_that_changed_in_the_store_never_reaches_the_machine_and_its_session_fails(
    world: World, session: Session, parked: Checkpoint
) -> None:
    pack, go_on = memory_pack(parked), hold_stream(world, parked)
    world.resume(session)
    flip(pack.held, pack.offset + 5)
    go_on()
    until(lambda: state(session) == "failed", 30, "the bad frame was found")
    seen = pages_of(session, FIRST, MIB << 8)
    assert seen[pack.page - FIRST] is None, "the machine cannot have what was damaged"
    saved = scribbled()
    assert [at for at, found in enumerate(seen) if found is not None and found != saved[at * PAGE : (at + 1) * PAGE]] == []
    settle_host()
    session.refresh_from_db()
    parked.refresh_from_db()
    assert session.runtime_state == "failed"
    assert session.failure is not None
    assert (session.failure["code"], session.failure["checkpoint_id"]) == ("ks_integrity", parked.id)
    assert parked.state == "corrupt"
    assert (live_machines(), directories()) == ([], [])


def test_a_manifest_that_changed_is_refused_before_anything_starts(world: World, session: Session, parked: Checkpoint) -> None:
    (path,) = Path(django_settings.STORAGES["checkpoints"]["OPTIONS"]["location"]).rglob(parked.manifest_id)
    damage(path)
    error = error_of(world.ask_resume(session))
    assert error["code"] == "ks_integrity"
    assert (live_machines(), directories()) == ([], [])


def test_a_process_that_serves_and_is_killed_ends_its_machine_and_the_session_resumes(
    world: World, session: Session, parked: Checkpoint
) -> None:
    pack = memory_pack(parked)
    hold_stream(world, parked)
    world.resume(session)
    pid = serving_pid(session)
    os.kill(pid, signal.SIGKILL)
    until_gone(pid, 60)
    os.replace(pack.held, pack.path)
    settle_host()
    session.refresh_from_db()
    assert session.runtime_state == "failed"
    assert session.failure is not None
    assert session.failure["code"] == "ks_machine_lost"
    assert (live_machines(), directories()) == ([], [])
    world.resume(session)
    assert guest(session, "cat note") == "kept"
    assert memory_of(session, FIRST, MIB << 8) == scribbled()


@pytest.mark.parametrize("step", ["verified", "images_ready", "loaded", "running", "greeted"])
def test_a_worker_that_dies_leaves_nothing_that_its_successor_does_not_end(
    world: World, session: Session, parked: Checkpoint, step: str
) -> None:
    operation = world.ask_resume(session)
    world.die_at(step)
    with pytest.raises(Died):
        done(operation)
    expire(operation)
    succeeded(operation)
    session.refresh_from_db()
    assert guest(session, "cat note") == "kept"
    assert len(directories()) <= 1
    world.delete(session)
    observe()
    assert (live_machines(), directories()) == ([], [])


def test_two_machines_run_from_one_image_and_the_last_one_takes_its_process_along(
    world: World, session: Session, parked: Checkpoint
) -> None:
    go_on = hold_stream(world, parked)
    children = created(ask_fork(session, 2, parked.id))
    for resume in resumes(children):
        succeeded(resume)
    one, two = (Session.objects.get(id=child.id) for child in children)
    assert serving_pid(one) == serving_pid(two)
    go_on()
    world.delete(one)
    assert memory_of(two, FIRST, MIB << 8) == scribbled()
    pid = serving_pid(two)
    world.delete(two)
    until_gone(pid, 60)
    assert directories() == []


def test_a_save_waits_until_all_is_verified(world: World, session: Session, parked: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = hold_stream(world, parked)
    world.resume(session)
    looks = []

    def look(runtime: Path) -> object:
        looks.append(found := plain(runtime))
        if len(looks) == 3:
            go_on()
        return found

    plain = lazy.look
    monkeypatch.setattr(lazy, "look", look)
    saved = world.save(session)
    assert [found["state"] for found in looks[:3] if found] == ["streaming"] * 3
    assert saved.parent_id == parked.id
    assert not session.verifying
    world.kill(session)
    world.resume(session)
    assert memory_of(session, FIRST, MIB << 8) == scribbled()


def test_a_save_that_would_wait_too_long_is_refused_and_the_machine_runs_on(
    world: World, session: Session, parked: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_stream(world, parked)
    world.resume(session)
    monkeypatch.setattr(verification, "WAIT_SECONDS", -1.0)
    error = error_of(world.ask_save(session))
    session.refresh_from_db()
    assert error["code"] == "ks_verifying"
    assert session.runtime_state == "running"
    assert session.checkpoints.count() == 1
    assert guest(session, "cat note") == "kept"


def test_a_save_of_a_machine_whose_memory_was_refused_fails_with_the_reason(world: World, session: Session, parked: Checkpoint) -> None:
    pack, go_on = memory_pack(parked), hold_stream(world, parked)
    world.resume(session)
    flip(pack.held, pack.offset + 5)
    go_on()
    error = error_of(world.ask_save(session))
    session.refresh_from_db()
    assert (error["code"], session.runtime_state) == ("ks_integrity", "failed")
    assert live_machines() == []


def test_a_session_deleted_while_its_memory_streams_in_leaves_nothing(world: World, session: Session, parked: Checkpoint) -> None:
    hold_stream(world, parked)
    world.resume(session)
    world.delete(session)
    assert (live_machines(), directories()) == ([], [])
    assert [path for path in files.place(files.MEMORY, "x").parent.glob("*") if path.suffix != ".lock"] == []


def test_packs_that_move_while_they_stream_are_followed(world: World, session: Session) -> None:
    """An older checkpoint is erased: a pack that it shared is rewritten under the stream."""
    scribble(session, 2, seed=9, at_mib=60)
    older = world.save(session)
    scribble(session, MIB, seed=1)
    scribble(session, 2, seed=5, at_mib=60)
    newest = world.save(session, stop=True)
    forget_cache()
    go_on = hold_stream(world, newest)
    world.resume(session)
    erase.erase_checkpoint(older)
    go_on()
    assert memory_of(session, FIRST, MIB << 8) == scribbled()
    until(lambda: verified(session), 30, "all is verified")


def test_an_image_under_a_running_machine_is_not_evicted(
    world: World, session: Session, parked: Checkpoint, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.resume(session)
    until(lambda: verified(session), 30, "all is verified")
    settings.KEEPSTATE_CACHE_GIB = 0
    monkeypatch.setattr("workers.cache.evict.SPARED_SECONDS", -1)
    evict()
    lazy.end_unused()
    assert files.place(files.MEMORY, parked.memory_root).exists()
    assert memory_of(session, FIRST, MIB << 8) == scribbled()


def test_a_host_that_cannot_serve_lazily_restores_the_whole(
    world: World, session: Session, parked: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(start._ENVIRONMENT, "FUSE_LIBRARY_PATH", "no-such-library")
    response = world.resume(session).response
    assert response is not None
    assert not response["verifying"]
    assert memory_of(session, FIRST, MIB << 8) == scribbled()
    assert directories() == []


def test_the_process_has_no_key_where_others_could_read_it(world: World, session: Session, parked: Checkpoint) -> None:
    hold_stream(world, parked)
    world.resume(session)
    pid = serving_pid(session)
    keys = key.keys_to_read(session.account_id)
    shown = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
    shown += (lazy.directory_of(parked.memory_root) / "daemon.log").read_bytes()
    for secret in (keys.pack_key, keys.id_key, keys.manifest_key):
        assert secret.reveal() not in shown
        assert secret.reveal().hex().encode() not in shown
    assert django_settings.KEEPSTATE_MASTER_KEY.hex().encode() not in shown


def test_what_a_resume_touched_is_had_first_the_next_time(world: World, session: Session, parked: Checkpoint) -> None:
    world.resume(session)
    memory_of(session, FIRST, 16)
    touched.record(machine_of(session).runtime, parked.id)
    pages = touched.decode((files.place("touched", parked.id)).read_bytes())
    assert set(range(FIRST, FIRST + 16)) <= set(pages.tolist())
    saved = world.save(session, stop=True)
    manifest = load_manifest(storage.backend(), key.keys_to_read(saved.account_id), saved.account_id, saved.manifest_id)
    forget_cache()
    assert touched.units_to_have_first(saved.id, manifest).tolist() == pages.tolist()
