"""How an image is named by its content, and what is said of one that is not whole."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from workers.guest import build as building
from workers.guest.errors import ImageError
from workers.guest.image import DESCRIPTION, READ_BYTES, image_digest, list_images, load_image, sha256_of, verify_image
from workers.machine.driver import GuestImage

FILES = {"kernel": "aa", "initrd": "bb"}


def rewrite(directory: Path, **changes: object) -> None:
    path = directory / DESCRIPTION
    description = json.loads(path.read_text()) | changes
    path.chmod(0o644)
    path.write_text(json.dumps(description))


@pytest.fixture
def directory(image: GuestImage) -> Path:
    return image.kernel.parent


@pytest.mark.parametrize(
    "other",
    [
        image_digest("aarch64", "quiet", FILES),
        image_digest("x86_64", "quiet panic=-1", FILES),
        image_digest("x86_64", "quiet", FILES | {"initrd": "cc"}),
        image_digest("x86_64", "quiet", FILES | {"disk.raw": "dd"}),
    ],
)
def test_each_part_of_an_image_decides_its_digest(other: str):
    assert image_digest("x86_64", "quiet", FILES) != other


def test_the_order_in_which_files_are_named_does_not_matter():
    assert image_digest("x86_64", "", FILES) == image_digest("x86_64", "", dict(reversed(FILES.items())))


def test_a_digest_is_the_sha256_of_its_documented_text():
    assert image_digest("x86_64", "quiet", FILES) == "7ba36be730d53f041b47bd5cb3e3974c62863601615ae32feefc440794bafcf2"


@pytest.mark.parametrize("layout", [[], ["hole"], ["data"], ["hole", "data"], ["data", "hole"], ["data", "hole", "data"]])
def test_a_file_with_holes_has_the_digest_of_its_bytes(tmp_path: Path, layout: list[str]):
    file = tmp_path / "sparse"
    with file.open("wb") as opened:
        for part in layout:
            opened.write(bytes([7]) * 100_001) if part == "data" else opened.seek(READ_BYTES + 4096, os.SEEK_CUR)
        opened.truncate(opened.tell())
    assert sha256_of(file) == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_directory_without_a_description_is_no_image(tmp_path: Path):
    with pytest.raises(ImageError, match="holds no image"):
        load_image(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"name": "tiny"}', "\xff"])
def test_a_description_that_makes_no_sense_is_refused(directory: Path, text: str):
    (directory / DESCRIPTION).chmod(0o644)
    (directory / DESCRIPTION).write_bytes(text.encode("latin-1"))
    with pytest.raises(ImageError, match="cannot be read"):
        load_image(directory)


def test_a_description_cannot_name_files_elsewhere(directory: Path):
    rewrite(directory, kernel="../kernel")
    with pytest.raises(ImageError, match="outside its directory"):
        load_image(directory)


def test_a_missing_file_is_named(directory: Path):
    (directory / "initrd").unlink()
    with pytest.raises(ImageError, match="lacks its file initrd"):
        load_image(directory)


def test_a_disk_of_another_size_is_refused(step, images: Path):
    image = building.build("debian-python", images, lambda line: None)
    assert image.disk is not None
    image.disk.chmod(0o644)
    os.truncate(image.disk, image.disk_bytes - 1)
    with pytest.raises(ImageError, match="bytes long, not"):
        load_image(image.kernel.parent)


def test_a_whole_image_is_verified(directory: Path, image: GuestImage):
    assert verify_image(directory) == image


@pytest.mark.parametrize("name", ["kernel", "initrd"])
def test_a_changed_byte_is_found(directory: Path, name: str):
    content = (directory / name).read_bytes()
    (directory / name).chmod(0o644)
    (directory / name).write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert load_image(directory)
    with pytest.raises(ImageError, match="not what it was"):
        verify_image(directory)


def test_a_changed_command_line_is_found(directory: Path):
    rewrite(directory, command_line="init=/bin/sh")
    with pytest.raises(ImageError, match="not what it was"):
        verify_image(directory)


def test_images_are_listed_by_name_with_the_newest_of_a_name_last(step, images: Path):
    old = building.build("tiny", images, lambda line: None)
    step.content = b"newer kernel"
    new = building.build("tiny", images, lambda line: None, fresh=True)
    other = building.build("debian-python", images, lambda line: None)
    assert list_images(images) == [other, old, new]


def test_a_build_that_makes_an_old_image_again_makes_it_the_newest(step, images: Path):
    first = building.build("tiny", images, lambda line: None)
    step.content = b"other"
    second = building.build("tiny", images, lambda line: None, fresh=True)
    step.content = b"kernel"
    building.build("tiny", images, lambda line: None, fresh=True)
    assert list_images(images) == [second, first]


def test_one_damaged_image_does_not_hide_the_others(step, images: Path, image: GuestImage):
    other = building.build("debian-python", images, lambda line: None)
    image.kernel.unlink()
    assert list_images(images) == [other]


def test_a_directory_that_is_not_there_lists_nothing(tmp_path: Path):
    assert list_images(tmp_path / "none") == []
