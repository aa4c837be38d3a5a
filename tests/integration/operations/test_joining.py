"""Whether a machine could work in its fleet: what it finds of the database, the broker, the store and the master key."""

import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.functions import Now
from pytest_django.fixtures import Settings

from checkpoints_app.services import storage
from sessions_app.models import Session
from tests.integration.operations.world import World
from tests.support.redis_server import redis_server
from workers.host.joining import Found, look
from workers.models import Host

#: The other parts of what is found do not need a broker that answers.
BROKER = {"broker"}


def found() -> dict[str, Found]:
    return {one.name: one for one in look()}


def problems() -> set[str]:
    return {name for name, one in found().items() if one.problem} - BROKER


@pytest.fixture
def applied(world: World) -> Iterator[MigrationRecorder]:
    """The schema's own record of what was applied to it; as it was afterwards."""
    recorder = MigrationRecorder(connection)
    before = set(recorder.applied_migrations())
    yield recorder
    for app, name in before - set(recorder.applied_migrations()):
        recorder.record_applied(app, name)
    for app, name in set(recorder.applied_migrations()) - before:
        recorder.record_unapplied(app, name)


def test_a_host_with_all_of_the_fleets_parts_may_start(world: World, session: Session, settings: Settings) -> None:
    world.save(session)
    with redis_server() as url:
        settings.REDIS_URL = url
        assert [one for one in found().values() if one.problem or one.doubt] == []


def test_a_broker_that_is_gone_is_named(world: World, settings: Settings, tmp_path: Path) -> None:
    settings.REDIS_URL = f"unix://{tmp_path}/none.sock"
    assert found()["broker"].problem


def test_another_master_key_is_refused_and_cannot_be_judged_before_anything_was_saved(
    world: World, session: Session, settings: Settings
) -> None:
    assert (found()["master key"].problem, found()["master key"].doubt) == (False, True)
    world.save(session)
    assert not found()["master key"].doubt
    settings.KEEPSTATE_MASTER_KEY = os.urandom(32)
    assert problems() == {"master key"}


def test_another_store_is_refused_once_something_was_saved(world: World, session: Session, settings: Settings, tmp_path: Path) -> None:
    world.save(session)
    elsewhere = {**settings.STORAGES["checkpoints"], "OPTIONS": {"location": str(tmp_path / "elsewhere")}}
    settings.STORAGES = {**settings.STORAGES, "checkpoints": elsewhere}
    storage.backend.cache_clear()
    assert problems() == {"store"}


def test_a_schema_that_lacks_a_migration_is_refused_and_nothing_more_is_asked_of_it(applied: MigrationRecorder) -> None:
    applied.record_unapplied("workers", "0001_initial")
    assert problems() == {"migrations"}
    assert "store" not in found()


def test_a_newer_schema_is_told_and_worked_with(applied: MigrationRecorder) -> None:
    applied.record_applied("workers", "9999_of_a_later_release")
    assert problems() == set()
    assert found()["migrations"].doubt


def test_an_id_that_was_retired_is_refused(world: World) -> None:
    assert not found()["id"].problem
    Host.objects.update(retired_at=Now())
    assert problems() == {"id"}


def test_a_supervisor_that_asks_for_what_is_shared_is_told_nothing_of_the_id(world: World, settings: Settings, tmp_path: Path) -> None:
    """For the worker ends with a code of its own then, after which it is not started again."""
    settings.REDIS_URL = f"unix://{tmp_path}/none.sock"
    Host.objects.update(retired_at=Now())
    told = StringIO()
    with pytest.raises(CommandError, match=r": broker\.$"):
        call_command("check_fleet", "--shared", stdout=told)
    assert "retired" not in told.getvalue()
    with pytest.raises(CommandError, match=r": broker, id\.$"):
        call_command("check_fleet", stdout=told)
    assert "retired" in told.getvalue()
