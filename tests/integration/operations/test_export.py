"""A user carries a session from one account to another: export, import, resume; and everything that must be refused on the way."""

import io
import json
import os
import signal
import stat
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from checkpoints_app.models import Checkpoint, Image, Pack, Pin
from checkpoints_app.services import export, pin, scrub
from checkpoints_app.services.import_ import import_
from checkpoints_app.store import SecretKey
from sessions_app.errors import Conflict, IntegrityFailed, Invalid, NotRestorable
from sessions_app.models import Account, Session
from sessions_app.services import session_deletion
from sessions_app.services.operation import Asked
from tests.integration.operations.world import World, damage, done, error_of, events, forget_cache, guest, scribble, store_directory
from tests.support import forked
from workers.models import HostPin

KEY = SecretKey(bytes(range(32)))


@pytest.fixture
def saved(world: World, session: Session) -> Checkpoint:
    guest(session, "echo carried > note")
    scribble(session, 2, seed=1)
    return world.save(session, stop=True)


@pytest.fixture
def file(saved: Checkpoint, tmp_path: Path) -> Path:
    path = tmp_path / "carried.ksexport"
    export.export(saved.id, path, KEY)
    return path


@pytest.fixture
def other(world: World) -> Account:
    return Account.objects.create(name="other")


def take(account: Account, file: Path, *, again: bool = False) -> Session:
    with open(file, "rb") as opened:
        return Session.objects.get(id=import_(account, opened, KEY, again=again).session_id)


def nothing_of(account: Account) -> bool:
    return not any(model.objects.filter(account=account).exists() for model in (Session, Checkpoint, Pack))


def test_an_imported_session_is_parked_and_resumes_where_the_exported_one_was_saved(world: World, file: Path, other: Account) -> None:
    forget_cache()
    session = take(other, file)
    assert (session.runtime_state, session.epoch, session.account_id) == ("parked", 0, other.id)
    assert events(session) == ["session.imported", "checkpoint.published"]
    world.resume(session)
    assert guest(session, "cat note") == "carried"
    assert session.epoch == 1


def test_an_imported_session_saves_forks_its_own_line_and_dies_alone(
    world: World, file: Path, other: Account, saved: Checkpoint, session: Session
) -> None:
    arrived = take(other, file)
    world.resume(arrived)
    guest(arrived, "echo new > note")
    second = world.save(arrived, stop=True)
    assert second.parent_id == arrived.checkpoints.earliest("created_at").id
    world.delete(arrived)
    world.resume(session, saved.id)
    assert guest(session, "cat note") == "carried"


def test_the_content_digest_of_what_was_imported_is_that_of_what_was_exported(file: Path, other: Account, tmp_path: Path) -> None:
    session = take(other, file)
    again = export.export(session.head_checkpoint_id, tmp_path / "again", KEY)
    with open(file, "rb") as opened:
        assert export.verify(opened, KEY).content == again.content


def test_the_same_file_is_imported_once_unless_another_session_is_asked_for(file: Path, other: Account) -> None:
    first, second, third = take(other, file), take(other, file), take(other, file, again=True)
    assert first.id == second.id != third.id
    assert Session.objects.filter(account=other).count() == 2


def test_an_image_that_is_not_known_is_named_and_nothing_is_imported(file: Path, other: Account, saved: Checkpoint) -> None:
    Image.objects.all().delete()
    with pytest.raises(Invalid, match=saved.image_digest):
        take(other, file)
    assert nothing_of(other)


def test_a_pin_that_no_host_has_is_recorded_and_only_the_resume_is_refused(
    world: World, file: Path, other: Account, saved: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = pin.record(saved.pin.architecture, {**saved.pin.facts, "hypervisor": "another build"})
    session = take(other, file)
    operation = world.ask_resume(session)
    for room in ("workers.operations.waking", "workers.host.pins"):
        monkeypatch.setattr(f"{room}.pin_here", lambda architecture: here)
    assert "hypervisor" in str(error_of(operation)["message"])
    session.refresh_from_db()
    assert session.runtime_state == "parked"


def test_a_pin_that_was_never_seen_here_gets_its_row(file: Path, other: Account, saved: Checkpoint, session: Session, world: World) -> None:
    facts = dict(saved.pin.facts)
    world.delete(session)
    Checkpoint.objects.all().delete()
    HostPin.objects.all().delete()
    Pin.objects.filter(digest=saved.pin_id).delete()
    arrived = take(other, file)
    assert Pin.objects.get(digest=arrived.pin_digest).facts == facts


@pytest.mark.parametrize("how", ["a flipped bit", "cut", "another key"])
def test_a_bad_file_is_refused_and_nothing_is_imported(file: Path, other: Account, how: str) -> None:
    key = KEY
    if how == "a flipped bit":
        damage(file)
    elif how == "cut":
        file.write_bytes(file.read_bytes()[:-30])
    else:
        key = SecretKey(bytes(32))
    with open(file, "rb") as opened, pytest.raises(IntegrityFailed):
        import_(other, opened, key)
    assert nothing_of(other)


@pytest.mark.parametrize("step", ["pack_written", "packs_durable", "manifest_durable", "stored", "published"])
def test_killed_at_any_step_an_import_has_published_nothing_and_then_starts_over(
    world: World, file: Path, other: Account, step: str
) -> None:
    def die_at(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        with open(file, "rb") as opened:
            import_(other, opened, KEY, step=die_at)

    assert forked.run(work) == -signal.SIGKILL
    assert nothing_of(other)
    session = take(other, file)
    forget_cache()
    world.resume(session)
    assert guest(session, "cat note") == "carried"


# -- the export's side


def test_an_interrupted_export_is_continued_by_the_same_call(saved: Checkpoint, file: Path, other: Account) -> None:
    whole = file.stat().st_size
    file.write_bytes(file.read_bytes()[: whole // 2])
    exported = export.export(saved.id, file, KEY)
    assert exported.file_bytes == file.stat().st_size > whole
    take(other, file)


def test_an_export_over_another_file_is_refused_and_the_file_stays(saved: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("years of work " * 500)
    with pytest.raises(Conflict, match="not touched"):
        export.export(saved.id, path, KEY)
    assert path.read_text() == "years of work " * 500


def test_a_damaged_checkpoint_is_marked_and_not_exported(saved: Checkpoint, tmp_path: Path) -> None:
    for path in (store_directory() / "objects").rglob("packs/*/*"):
        damage(path)
    with pytest.raises(IntegrityFailed):
        export.export(saved.id, tmp_path / "export", KEY)
    saved.refresh_from_db()
    assert saved.state == "corrupt"
    with pytest.raises(NotRestorable, match="corrupt"):
        export.export(saved.id, tmp_path / "export", KEY)


def test_an_import_of_its_export_heals_a_checkpoint_whose_packs_were_lost(
    world: World, session: Session, saved: Checkpoint, file: Path
) -> None:
    for path in (store_directory() / "objects").rglob("packs/*/*"):
        path.unlink()
    scrub.run(everything=True)
    saved.refresh_from_db()
    assert saved.state == "corrupt"
    take(world.account, file)
    scrub.run()
    forget_cache()
    world.resume(session, saved.id)
    assert guest(session, "cat note") == "carried"


# -- the commands


def told(*arguments: str) -> list[dict[str, object]]:
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=io.StringIO())
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_the_commands_carry_a_checkpoint_with_a_key_that_was_drawn_into_its_file(saved: Checkpoint, other: Account, tmp_path: Path) -> None:
    file, key_file = str(tmp_path / "export"), tmp_path / "key"
    (exported,) = told("export_checkpoint", saved.id, file, "--key-file", str(key_file))
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    (verified,) = told("verify_export", file, "--key-file", str(key_file))
    (imported,) = told("import_checkpoint", file, "--account", other.name, "--key-file", str(key_file))
    assert verified["content"] == imported["content"] == exported["content"]
    assert Session.objects.get(id=imported["session_id"]).account_id == other.id


def test_a_key_that_nobody_keeps_is_printed_once_and_before_anything_is_written(saved: Checkpoint, tmp_path: Path) -> None:
    shown, _ = told("export_checkpoint", saved.id, str(tmp_path / "export"))
    key_file = tmp_path / "key"
    key_file.write_text(str(shown["key"]))
    key_file.chmod(0o600)
    (verified,) = told("verify_export", str(tmp_path / "export"), "--key-file", str(key_file))
    assert verified["verified"] is True


def test_a_key_file_that_others_can_read_is_refused_before_anything_is_done(saved: Checkpoint, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(KEY.reveal().hex())
    key_file.chmod(0o644)
    with pytest.raises(CommandError, match="can be read by others"):
        told("export_checkpoint", saved.id, str(tmp_path / "export"), "--key-file", str(key_file))
    assert not (tmp_path / "export").exists()


def test_an_import_into_an_account_that_is_not_there_is_refused(file: Path, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(KEY.reveal().hex())
    key_file.chmod(0o600)
    with pytest.raises(CommandError, match="no account 'nobody'"):
        told("import_checkpoint", str(file), "--account", "nobody", "--key-file", str(key_file))


def test_a_parked_import_can_be_deleted_before_it_ever_ran(world: World, file: Path, other: Account) -> None:
    session = take(other, file)
    assert done(session_deletion.ask(session, force=False, asked=Asked())).state == "succeeded"
    assert not Pack.objects.filter(account=other).exists()
