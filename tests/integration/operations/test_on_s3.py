"""A session whose work lies on an S3 server: saved, lost with its host's cache, resumed, deleted."""

import secrets
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from checkpoints_app.services import storage
from keepstate_site.settings.store import checkpoint_storage
from sessions_app.models import Session
from tests.integration.operations.conftest import forget_caches
from tests.integration.operations.world import World, forget_cache, guest, scribble
from tests.support.seaweed import BUCKET, S3Server


@pytest.fixture
def host(host: Path, settings: Settings, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As elsewhere, but for the store."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.credentials.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.credentials.secret_key)
    url = f"s3://{BUCKET}/session-{secrets.token_hex(8)}?endpoint={s3_server.endpoint}"
    settings.STORAGES = {**settings.STORAGES, "checkpoints": checkpoint_storage(url, host / "none")}
    forget_caches()
    return host


def test_what_was_saved_resumes_on_a_host_that_has_nothing_of_it(world: World, session: Session) -> None:
    guest(session, "echo kept > note")
    scribble(session, 2, seed=1)
    world.save(session)
    guest(session, "echo lost > note")
    world.kill(session)
    forget_cache()
    operation = world.resume(session)
    assert operation.response is not None
    assert operation.response["images_from"] == "store"
    assert guest(session, "cat note") == "kept"


def test_what_is_deleted_leaves_the_bucket(world: World, session: Session) -> None:
    scribble(session, 2, seed=1)
    world.save(session)
    assert [listed for listed in storage.backend().list("") if "/packs/" in listed.key]
    world.delete(session)
    assert not [listed for listed in storage.backend().list("") if "/packs/" in listed.key or "/manifests/" in listed.key]
