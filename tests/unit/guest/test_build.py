"""A build is complete or absent, whatever happens to the builder."""

import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.unit.guest.conftest import PACKAGES, FakeStep
from workers.guest.build import build
from workers.guest.errors import ImageError
from workers.guest.image import DESCRIPTION, verify_image
from workers.guest.publish import SCRATCH, only_builder
from workers.machine.driver import GuestImage

PROJECT = Path(__file__).resolve().parents[3]


def quiet(line: str) -> None:
    pass


def names(images: Path) -> set[str]:
    return {path.name for path in images.iterdir()} - {"recipes", ".lock"}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_built_image_is_whole_and_named_by_its_digest(image: GuestImage, images: Path):
    assert names(images) == {image.digest}
    assert verify_image(images / image.digest) == image


def test_its_description_says_where_it_comes_from(image: GuestImage):
    description = json.loads((image.kernel.parent / DESCRIPTION).read_text())
    assert description["packages"] == PACKAGES
    assert description["name"] == "tiny"
    assert description["disk"] is None
    assert description["default_memory_mib"] > 0
    assert description["distribution"]


def test_its_files_are_read_only(image: GuestImage):
    for path in image.kernel.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_an_unchanged_recipe_is_not_built_again(image: GuestImage, images: Path, step: FakeStep):
    assert build("tiny", images, quiet) == image
    assert step.calls == 1


def test_fresh_builds_in_any_case(image: GuestImage, images: Path, step: FakeStep):
    step.content = b"newer kernel"
    assert build("tiny", images, quiet, fresh=True).digest != image.digest
    assert step.calls == 2


def test_an_image_that_lost_a_file_is_built_again(image: GuestImage, images: Path, step: FakeStep):
    image.kernel.unlink()
    assert build("tiny", images, quiet) == image
    assert verify_image(image.kernel.parent) == image
    assert step.calls == 2


def test_a_damaged_image_is_replaced_when_the_same_content_is_built(image: GuestImage, images: Path):
    image.kernel.chmod(0o644)
    image.kernel.write_bytes(b"rotten")
    assert verify_image(build("tiny", images, quiet, fresh=True).kernel.parent) == image


def test_a_step_that_fails_leaves_nothing(images: Path, step: FakeStep):
    def fail() -> None:
        raise ImageError("no network")

    step.during = fail
    with pytest.raises(ImageError, match="no network"):
        build("tiny", images, quiet)
    assert names(images) == set()


def test_a_failure_leaves_the_image_that_was_there(image: GuestImage, images: Path, step: FakeStep):
    def fail() -> None:
        raise ImageError("no network")

    step.during = fail
    with pytest.raises(ImageError):
        build("tiny", images, quiet, fresh=True)
    assert build("tiny", images, quiet) == image


def test_what_a_killed_builder_left_is_no_image_and_is_swept_by_the_next(images: Path, step: FakeStep):
    step.during = die
    builder = multiprocessing.get_context("fork").Process(target=build, args=("tiny", images, quiet))
    builder.start()
    builder.join()
    assert builder.exitcode == -signal.SIGKILL
    assert names(images) == {SCRATCH}
    step.during = lambda: None
    image = build("tiny", images, quiet)
    assert names(images) == {image.digest}


def test_of_two_builders_one_builds_and_the_other_takes_its_image(images: Path, step: FakeStep):
    images.mkdir()
    told, found = threading.Event(), []

    def second() -> None:
        found.append(build("tiny", images, lambda line: told.set()))

    other = threading.Thread(target=second)

    def meanwhile() -> None:
        other.start()
        assert told.wait(30), "the second builder says that it waits"

    step.during = meanwhile
    first = build("tiny", images, quiet)
    other.join(30)
    assert found == [first]
    assert step.calls == 1


def test_a_builder_that_ended_holds_nobody_up(images: Path):
    images.mkdir()
    with only_builder(images, quiet):
        pass
    with only_builder(images, quiet):
        assert not (images / SCRATCH).exists()


def test_an_unknown_recipe_is_refused_with_the_known_ones(images: Path):
    with pytest.raises(ImageError, match=r"'plan9'.*tiny, tiny-arm64, debian-python"):
        build("plan9", images, quiet)


def test_it_needs_nothing_beside_pythons_own_library():
    """The launcher builds images while Python's packages are still being installed."""
    bare = [sys.executable, "-S", "-c", "import sys; sys.path.insert(0, sys.argv[1]); import workers.guest.__main__", str(PROJECT)]
    assert subprocess.run(bare, capture_output=True, text=True, check=False).stderr == ""
