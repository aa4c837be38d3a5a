"""Fixtures that the tests of the API and of the domain share; a conftest names those that it uses."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from sessions_app.services import dispatch
from tests.support import fleet
from tests.support.api import Caller, caller, close_streams
from tests.support.fleet import Tenant


@pytest.fixture
def doorbells(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What was rung instead of a broker: task, queue, arguments."""
    rung: list[tuple[str, ...]] = []
    monkeypatch.setattr(dispatch, "_send", lambda task, queue, *arguments, **_: rung.append((task, queue, *arguments)))
    monkeypatch.setattr(dispatch, "answers", lambda: True)
    return rung


@pytest.fixture
def owner(db: None, doorbells: list[tuple[str, ...]]) -> Iterator[Tenant]:
    """An account with a token, and a fleet that can take its sessions."""
    fleet.host_with_image()
    yield fleet.tenant("owner")
    close_streams()


@pytest.fixture
def heard_of(settings: Settings) -> None:
    """For a test that takes longer than a host may be silent: those of tests are rows, and have no heart."""
    settings.KEEPSTATE_HOST_SILENT_SECONDS = 3600


@pytest.fixture
def stranger(owner: Tenant) -> Tenant:
    return fleet.tenant("stranger")


@pytest.fixture
def api(owner: Tenant) -> Caller:
    return caller(owner)
