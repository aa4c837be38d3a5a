"""A host's directories below the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from tests.support.fixtures import api, doorbells, owner
from tests.support.losses import fleet
from workers.host import identity

__all__ = ["api", "doorbells", "fleet", "owner"]


@pytest.fixture
def host(settings: Settings, tmp_path: Path) -> Iterator[Path]:
    settings.KEEPSTATE_VAR = tmp_path / "var"
    settings.KEEPSTATE_HOST_ID = "h-unit"
    identity.host_id.cache_clear()
    yield identity.host_directory()
    identity.host_id.cache_clear()
