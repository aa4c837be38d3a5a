"""Both images, built if they are not there, each booted once for all the tests that only talk to it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.guest.plain_machine import PlainMachine
from workers.guest.build import build
from workers.machine.driver import GuestImage

IMAGES = Path(os.environ.get("KEEPSTATE_IMAGES") or Path(__file__).resolve().parents[3] / "var" / "images").resolve()


@pytest.fixture(scope="module", params=["tiny", "debian-python"])
def image(request: pytest.FixtureRequest) -> GuestImage:
    return build(request.param, IMAGES, print)


@pytest.fixture(scope="module")
def machine(image: GuestImage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainMachine]:
    booted = PlainMachine(image, tmp_path_factory.mktemp("machine"))
    yield booted
    booted.kill()
