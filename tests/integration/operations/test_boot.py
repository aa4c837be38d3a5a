"""Boot: a machine that answers, or nothing at all."""

import shutil

import pytest
from django.conf import settings
from django.db import DatabaseError

from sessions_app.services import lease as leases
from tests.integration.operations.world import (
    HOST,
    Died,
    World,
    done,
    error_of,
    events,
    expire,
    guest,
    live_machines,
    runs,
    runtime_directories,
    succeeded,
)
from workers.host.pins import pin_here
from workers.machine.fake.driver import FakeDriver


def test_a_booted_session_runs_on_this_host_and_its_guest_answers(world: World) -> None:
    operation = succeeded(world.ask_boot())
    session = operation.session
    assert (session.runtime_state, session.epoch, session.host_id) == ("running", 1, HOST)
    assert session.pin_digest == pin_here(session.architecture).digest
    assert guest(session, "echo here") == "here"
    assert operation.http_status == 201
    assert operation.response is not None
    assert operation.response["state"] == "running"
    assert events(session) == ["session.created", "session.running"]


def test_a_boot_that_fails_leaves_no_process_and_no_directory_and_says_why(world: World) -> None:
    world.faults.boot_fails = "the kernel found no root"
    operation = world.ask_boot()
    error = error_of(operation)
    session = operation.session
    assert error["code"] == "ks_start_failed"
    assert "the kernel found no root" in str(error["message"])
    assert (session.runtime_state, session.host_id) == ("failed", "")
    assert session.failure is not None
    assert session.failure["code"] == "ks_start_failed"
    assert runtime_directories() == []


def test_a_host_without_the_image_fails_the_session_and_says_how_to_bring_it(world: World) -> None:
    shutil.rmtree(settings.KEEPSTATE_IMAGES)
    operation = world.ask_boot()
    error = error_of(operation)
    assert error["code"] == "ks_fleet_unavailable"
    assert "images" in str(error["next_action"])
    assert operation.session.runtime_state == "failed"


def test_an_image_that_has_lost_a_file_fails_the_session_and_says_which_image(world: World) -> None:
    operation = world.ask_boot()
    (settings.KEEPSTATE_IMAGES / operation.session.image_digest / "kernel").unlink()
    error = error_of(operation)
    assert error["code"] == "ks_fleet_unavailable"
    assert "tiny" in str(error["message"])
    assert str(settings.KEEPSTATE_IMAGES) not in str(error)
    assert operation.session.runtime_state == "failed"
    assert operation.session.failure is not None
    assert live_machines() == []


def test_a_boot_whose_commit_fails_leaves_no_machine_and_no_session_that_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise DatabaseError("a rule of the database refused the commit")

    monkeypatch.setattr(leases, "succeed", broken)
    operation = done(world.ask_boot())
    assert operation.state == "failed"
    assert live_machines() == []
    assert operation.session.runtime_state == "failed"


def test_a_boot_that_died_after_its_failure_was_written_starts_nothing_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.faults.boot_fails = "no kernel"
    operation = world.ask_boot()

    def died(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(leases, "fail", died)
        with pytest.raises(Died):
            done(operation)
    expire(operation)
    world.faults.boot_fails = None
    error = error_of(operation)
    assert error["code"] == "ks_start_failed"
    assert "no kernel" in str(error["message"])
    assert runtime_directories() == []


def test_a_second_attempt_ends_the_machine_of_the_first_and_boots_its_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = FakeDriver.boot
    operation = world.ask_boot()

    def boot_and_die(*arguments: object, **options: object) -> None:
        boot(*arguments, **options)  # type: ignore[arg-type]
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(FakeDriver, "boot", boot_and_die)
        with pytest.raises(Died):
            done(operation)
    expire(operation)
    session = succeeded(operation).session
    assert session.epoch == 2
    assert live_machines() == [f"{session.id}.2"]
    assert runtime_directories() == [f"{session.id}.2"]
    assert runs(session)
