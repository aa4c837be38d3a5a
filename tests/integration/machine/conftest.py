"""Guest images that were built on this host; a test that needs one that is missing is skipped and says how to build it."""

from pathlib import Path

import pytest

from workers.guest.image import list_images
from workers.machine.driver import GuestImage

IMAGES = Path(__file__).resolve().parents[3] / "var" / "images"


def _image(name: str) -> GuestImage:
    found = [image for image in list_images(IMAGES) if image.name == name]
    if not found:
        pytest.skip(f"the guest image {name} is not built: python -m workers.guest {name}")
    return max(found, key=lambda image: image.kernel.stat().st_mtime)


@pytest.fixture(scope="session")
def tiny_image() -> GuestImage:
    return _image("tiny")


@pytest.fixture(scope="session")
def python_image() -> GuestImage:
    return _image("debian-python")
