"""A session that begins with an archive: its files are there before it runs, or it does not run."""

import io
from typing import Any

import pytest
from django.db import transaction

from sessions_app.models import Operation, Session, Workspace, WorkspacePart
from sessions_app.services import session as sessions
from sessions_app.services import workspace
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from tests.integration.operations.scripted import offer_scripts
from tests.integration.operations.world import IMAGE, Died, World, done, error_of, events, expire, guest, live_machines, succeeded
from tests.unit.archive.kit import TAR, tar_of
from workers.files import unpacking
from workers.operations import workspace as filling

LONG = "a-directory-with-a-rather-long-name/" * 4 + "grün.txt"
NOISE = bytes(range(256)) * 4000


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return offer_scripts(monkeypatch)


def asked(world: World, *entries: tuple[str, Any]) -> Operation:
    def program(info: Any) -> None:
        info.mode = 0o700 if info.name.endswith(".sh") else 0o600

    data = tar_of(*entries, change=program)
    with workspace.pack(io.BytesIO(data), TAR, "0" * 64, len(data)) as received, transaction.atomic():
        found = workspace.keep(world.account, received)
    return sessions.create(world.account, Wanted(image=IMAGE, memory_mib=128, workspace_id=found.id), Asked())


def session_of(operation: Operation) -> Session:
    return Session.objects.get(id=operation.session_id)


def test_its_files_are_in_the_machine_and_the_archive_is_gone(world: World, scripts: list[str]) -> None:
    session = succeeded(asked(world, ("a/", ""), ("a/run.sh", "echo hi"), (LONG, "long"), ("noise", NOISE))).session
    assert guest(session, "sh a/run.sh; wc -c <noise; stat -c %a a/run.sh noise a; find . | wc -l").split() == [
        "hi", str(len(NOISE)), "755", "644", "755", "9",
    ]  # fmt: skip
    assert guest(session, f"cat '{LONG}'") == "long"
    assert (Workspace.objects.count(), WorkspacePart.objects.count()) == (0, 0)
    assert events(session) == ["session.created", "session.workspace_unpacked", "session.running"]
    told = session.events.get(type="session.workspace_unpacked").payload
    assert (told["files"], told["bytes"]) == (3, len(NOISE) + 11)


def test_an_empty_archive_is_a_workspace_too(world: World, scripts: list[str]) -> None:
    assert succeeded(asked(world)).session.runtime_state == "running"


def test_a_guest_that_does_not_unpack_it_fails_the_boot_and_says_why(
    world: World, scripts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "SECONDS", 30)
    operation = asked(world, ("f", "x"))
    Workspace.objects.update(stored_sha256="0" * 64)
    error = error_of(operation)
    assert error["code"] == "ks_workspace_not_unpacked"
    assert "not what was sent" in str(error["message"])
    assert (session_of(operation).runtime_state, live_machines()) == ("failed", [])


def test_a_lost_part_fails_the_boot(world: World, scripts: list[str]) -> None:
    operation = asked(world, ("f", "x"))
    WorkspacePart.objects.all().delete()
    assert error_of(operation)["code"] == "ks_workspace_not_unpacked"
    assert live_machines() == []


def test_a_host_whose_machines_take_no_files_fails_the_boot(world: World) -> None:
    assert error_of(asked(world, ("f", "x")))["code"] == "ks_workspace_not_unpacked"


def test_an_attempt_that_died_after_unpacking_is_done_again_in_a_machine_of_its_own(
    world: World, scripts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = filling.fill
    operation = asked(world, ("f", "x"))

    def fill_and_die(*arguments: Any) -> None:
        fill(*arguments)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(filling, "fill", fill_and_die)
        with pytest.raises(Died):
            done(operation)
    expire(operation)
    session = succeeded(operation).session
    assert guest(session, "cat f; ls -A") == "xf"
    assert events(session).count("session.workspace_unpacked") == 1
