"""An empty store and a database for each test; packs are small, so that a checkpoint of a few units has several."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from checkpoints_app.services import storage
from checkpoints_app.store import packer
from tests.support import fleet
from tests.support.shelf import PACK_UNITS, Shelf


@pytest.fixture
def store(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    settings.STORAGES = {
        **settings.STORAGES,
        "checkpoints": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "store")},
        },
    }
    storage.backend.cache_clear()
    monkeypatch.setattr(packer, "PACK_UNITS", PACK_UNITS)
    yield tmp_path / "store"
    storage.backend.cache_clear()


@pytest.fixture
def shelf(store: Path, transactional_db: None) -> Shelf:
    return Shelf(fleet.tenant().account)
