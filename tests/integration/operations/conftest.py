"""A fresh host of fake machines for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from checkpoints_app.services import storage
from sessions_app.models import Session
from tests.integration.operations.world import HOST, OTHER, World, end_every_machine, write_image
from tests.support import fleet
from tests.support.fixtures import doorbells
from workers import crash
from workers.host import drivers, identity
from workers.host.register import register, register_images

__all__ = ["doorbells"]


@pytest.fixture
def host(settings: Settings, tmp_path: Path) -> Iterator[Path]:
    """The directory of a host that has an image and was not registered; its machines are ended after the test."""
    settings.KEEPSTATE_VAR = tmp_path / "var"
    settings.KEEPSTATE_IMAGES = tmp_path / "images"
    settings.KEEPSTATE_HOST_ID = HOST
    settings.KEEPSTATE_MACHINE_DRIVER = "fake"
    settings.STORAGES = {
        **settings.STORAGES,
        "checkpoints": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "store")},
        },
    }
    forget_caches()
    write_image(tmp_path / "images")
    yield identity.host_directory()
    end_every_machine()
    forget_caches()


@pytest.fixture
def world(host: Path, transactional_db: None, doorbells: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> World:
    """A registered host and an account."""
    register()
    register_images()
    steps: dict[str, Callable[[], object]] = {}
    monkeypatch.setattr(crash, "reach", lambda step: steps.pop(step, lambda: None)())
    return World(fleet.tenant().account, steps)


@pytest.fixture
def at_host(world: World, settings: Settings) -> Iterator[Callable[[str], None]]:
    """There is another host, and from now on this process is a worker of the one that is named."""

    def be(name: str) -> None:
        settings.KEEPSTATE_HOST_ID = name
        identity.host_id.cache_clear()

    be(OTHER)
    register()
    register_images()
    be(HOST)
    yield be
    be(OTHER)
    end_every_machine()
    be(HOST)


@pytest.fixture
def session(world: World) -> Session:
    """One whose machine runs."""
    return world.boot()


def forget_caches() -> None:
    """What a process keeps for its life."""
    for cached in (identity.host_id, drivers.driver, storage.backend):
        cached.cache_clear()
