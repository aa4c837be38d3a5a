"""A build whose expensive step is faked: what it would fetch and install is a few bytes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from workers.guest import build as building
from workers.guest.image import DISK
from workers.guest.recipe import DEBIAN_PYTHON, RECIPES, Recipe
from workers.machine.driver import GuestImage

PACKAGES = {"busybox-static": "1:1.35"}


class FakeStep:
    """Stands for `make_files`; `content` is what the next build makes, `during` what happens half-way."""

    def __init__(self) -> None:
        self.calls = 0
        self.content = b"kernel"
        self.during: Callable[[], None] = lambda: None

    def __call__(self, recipe: Recipe, distribution, files, work: Path, result: Path, say) -> dict[str, str]:
        self.calls += 1
        (result / "kernel").write_bytes(self.content)
        self.during()
        (result / "initrd").write_bytes(b"initrd")
        if recipe.disk_bytes:
            with (result / DISK).open("wb") as disk:
                disk.truncate(recipe.disk_bytes)
        return PACKAGES


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> FakeStep:
    fake = FakeStep()
    monkeypatch.setattr(building, "make_files", fake)
    monkeypatch.setitem(RECIPES, "debian-python", replace(DEBIAN_PYTHON, disk_bytes=1 << 20))  # a disk that is quickly hashed
    return fake


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return tmp_path / "images"


@pytest.fixture
def image(step: FakeStep, images: Path) -> GuestImage:
    return building.build("tiny", images, lambda line: None)
