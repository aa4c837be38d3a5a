"""Guest images that were built on this host; a test that needs one that is missing is skipped and says how to build it."""

import os
import shutil
from pathlib import Path

import pytest

from workers.guest.image import list_images
from workers.machine.driver import GuestImage

IMAGES = Path(os.environ.get("KEEPSTATE_IMAGES") or Path(__file__).resolve().parents[3] / "var" / "images")


def _image(name: str) -> GuestImage:
    found = [image for image in list_images(IMAGES) if image.name == name]
    if not found:
        pytest.skip(f"the guest image {name} is not built: python -m workers.guest {name}")
    return max(found, key=lambda image: image.kernel.stat().st_mtime)


@pytest.fixture(scope="session")
def tiny_image() -> GuestImage:
    return _image("tiny")


@pytest.fixture(scope="session")
def arm64_image() -> GuestImage:
    if shutil.which("qemu-system-aarch64") is None:
        pytest.skip("this host runs no arm64 machines: apt-get install qemu-system-arm")
    return _image("tiny-arm64")


@pytest.fixture(scope="session")
def python_image() -> GuestImage:
    return _image("debian-python")
