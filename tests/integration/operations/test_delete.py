"""Delete: final from any state, safe to repeat, and no pack is erased that somebody else holds."""

import os

import pytest
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint, Pack, PackEdge
from checkpoints_app.services import erase, storage
from checkpoints_app.store import UnavailableError
from sessions_app.errors import Conflict
from sessions_app.models import Session
from sessions_app.services import account_rows, operation
from sessions_app.services import lease as leases
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from sessions_app.states import SessionState
from tests.gates.erasure.marked import rows_with
from tests.integration.operations.forking import forked
from tests.integration.operations.world import (
    IMAGE,
    Died,
    World,
    done,
    error_of,
    events,
    expire,
    leftovers,
    live_machines,
    objects,
    runtime_directories,
    scribble,
    succeeded,
)
from workers.cache import evict, files, forgotten
from workers.host import liveness, machines
from workers.host.identity import cache_directory, staging_directory
from workers.models import Host
from workers.operations.leftovers import STALE_SECONDS
from workers.operations.observe import observe


def test_it_ends_the_machine_and_erases_every_object_of_the_session(world: World, session: Session) -> None:
    scribble(session, 1, seed=1)
    world.save(session)
    operation = world.delete(session)
    assert (session.runtime_state, session.host_id) == ("deleted", "")
    assert session.deleted_at is not None
    assert runtime_directories() == []
    assert objects() == {}
    assert leftovers() == []
    assert set(session.checkpoints.values_list("state", flat=True)) == {"erased"}
    assert not Pack.objects.exists()
    assert operation.response is not None
    assert operation.response["content_purge"]["packs"] == 1
    assert events(session) == ["session.deleted"]


@pytest.mark.parametrize("state", [state for state in SessionState if state != SessionState.DELETED])
@pytest.mark.parametrize("alive", [True, False])
def test_it_is_possible_from_every_state_with_and_without_a_machine(world: World, session: Session, state: str, alive: bool) -> None:
    if not alive:
        world.kill(session)
    Session.objects.filter(id=session.id).update(runtime_state=state)
    session.refresh_from_db()
    world.delete(session)
    assert session.runtime_state == "deleted"
    assert runtime_directories() == []


def test_what_another_session_holds_stays_and_still_resumes(world: World, session: Session) -> None:
    scribble(session, 1, seed=1)
    mine = world.save(session, stop=True)
    other = world.boot()
    scribble(other, 1, seed=2)
    others = world.save(other, stop=True)
    shared = mine.edges.get().pack
    PackEdge.objects.create(checkpoint=others, pack=shared, units=shared.units)
    operation = world.delete(session)
    assert operation.response is not None
    assert (operation.response["content_purge"]["packs"], operation.response["content_purge"]["packs_shared"]) == (0, 1)
    assert {name.rsplit("/", 1)[1] for name in objects()} == {shared.id, others.manifest_id, *pack_ids(others)}
    world.resume(other)


def pack_ids(checkpoint: Checkpoint) -> set[str]:
    return set(checkpoint.edges.values_list("pack_id", flat=True))


@pytest.mark.parametrize("after", ["the edges", "the packs", "the manifests"])
def test_an_attempt_that_died_half_way_is_done_again(world: World, session: Session, monkeypatch: pytest.MonkeyPatch, after: str) -> None:
    scribble(session, 1, seed=1)
    world.save(session)
    operation = world.ask_delete(session)
    dying = {"the edges": (storage, "delete_pack"), "the packs": (storage, "delete_manifest"), "the manifests": (leases, "succeed")}

    def died(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(*dying[after], died)
        with pytest.raises(Died):
            done(operation)
    expire(operation)
    succeeded(operation)
    session.refresh_from_db()
    assert session.runtime_state == "deleted"
    assert objects() == {}
    assert not Pack.objects.exists()


def test_a_store_that_does_not_answer_fails_the_delete_without_a_false_word_and_it_can_be_asked_again(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.save(session)

    def broken(*_: object) -> None:
        raise UnavailableError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "delete_pack", broken)
        error = error_of(world.ask_delete(session))
    session.refresh_from_db()
    assert session.runtime_state == "deleting"
    assert "intact" not in str(error["message"])
    world.delete(session)
    assert objects() == {}


def test_the_assembled_images_of_the_session_leave_this_host_with_it(world: World, session: Session) -> None:
    """They are its memory and its disk, in the clear."""
    scribble(session, 1, seed=1)
    kept = world.save(world.boot())
    mine = [world.save(session), world.save(session, stop=True)]
    world.delete(session)
    names = {path.name for path in cache_directory().glob("*/*") if path.suffix != ".lock"}
    assert not any(name.startswith((row.memory_root, row.content_digest)) for row in mine for name in names)
    assert kept.content_digest in names


def test_a_host_that_looks_after_itself_forgets_what_was_erased_elsewhere_and_nothing_else(world: World, session: Session) -> None:
    """The session was deleted on another host: that one has removed its own images only."""
    scribble(session, 1, seed=1)
    kept = world.save(world.boot(), stop=True)
    erased = world.save(session, stop=True)
    world.resume(session)  # its machine is started from the erased checkpoint's images: they stay as long as it lives
    scribble(session, 1, seed=2)
    later = world.save(session)
    for row in (erased, later):
        erase.erase_checkpoint(row)
    observe()
    assert files.place(files.MEMORY, later.memory_root).exists(), "what was used a moment ago may be a save's that is not published yet"
    hours_pass()
    observe()
    names = {path.name for path in cache_directory().glob("*/*")}
    assert {kept.memory_root, kept.content_digest, erased.memory_root, erased.content_digest} <= names
    assert not any(name.startswith((later.memory_root, later.content_digest)) for name in names)
    world.kill(session)
    observe()
    hours_pass()
    observe()
    assert not any(erased.memory_root in path.name for path in cache_directory().glob("*/*"))


def hours_pass() -> None:
    for path in [*cache_directory().glob("*/*"), cache_directory() / "compared"]:
        past = path.stat().st_mtime - max(evict.SPARED_SECONDS, forgotten.EVERY_SECONDS) - 1
        os.utime(path, (path.stat().st_atime, past))


MARK = "said-by-the-customer-4c1d"


def test_nothing_that_was_said_of_the_session_is_left_in_any_table_and_its_fork_is_untouched(world: World) -> None:
    asked = Asked("POST", "/api/sessions", "ksop_of_the_start", {"Name": MARK})
    session = succeeded(sessions.create(world.account, Wanted(image=IMAGE, name=MARK, memory_mib=128), asked)).session
    succeeded(world.ask_exec(session, "sh", "-c", f"echo {MARK}"))
    succeeded(sessions.checkpoint(session, stop=True, reason=MARK, asked=Asked()))
    session.refresh_from_db()
    (child,) = forked(world, session, 1, session.head_checkpoint_id)
    Checkpoint.objects.filter(session=session).update(name=MARK, hold_reason=MARK)
    assert {"sessions_app_session", "sessions_app_operation", "checkpoints_app_checkpoint"} <= rows_with(MARK).keys()
    world.delete(session)
    assert rows_with(MARK) == {}
    with pytest.raises(Conflict, match="has been deleted"):  # its key starts no second session
        operation.replay(world.account, asked)
    child.refresh_from_db()
    assert (child.runtime_state, child.parent_id) == ("running", session.id)
    world.save(child)


def test_a_silent_host_is_not_waited_for_and_ends_what_it_runs_when_it_is_back(world: World, session: Session) -> None:
    """The deletion is carried out by another host; later the whole account, with the session's row, is gone."""
    world.save(session)
    Host.objects.update(heartbeat_at=Now() - 2 * liveness.silent_after())
    deletion = world.ask_delete(session)
    assert deletion.queue == "control"
    runtime = world.runtime(session)
    Session.objects.filter(id=session.id).update(host_id="h-silent")  # to this worker its machine is on another host
    with pytest.MonkeyPatch.context() as elsewhere:
        elsewhere.setattr(machines, "machines_directory", lambda: runtime.parent / "none")
        succeeded(deletion)
    assert deletion.response is not None
    assert deletion.response["runtime_stop"]["state"] == "pending"
    assert (objects(), len(live_machines())) == ({}, 1)
    account_rows.erase(world.account, told=lambda *_: None)
    observe()
    assert (live_machines(), runtime_directories()) == ([], [])


def test_staging_of_an_operation_that_nobody_knows_is_a_guests_memory_and_goes_after_a_day(world: World) -> None:
    left = staging_directory() / "op_of_an_erased_account.1"
    left.mkdir(parents=True)
    observe()
    assert left.exists()
    past = left.stat().st_mtime - STALE_SECONDS - 1
    os.utime(left, (past, past))
    observe()
    assert not left.exists()
