"""The host cache: an image is believed only as what it was when it joined."""

import os
import threading
from pathlib import Path

import pytest

from tests.unit.workers.sparse_files import noise, sparse
from workers.cache import files
from workers.cache.files import MEMORY

pytestmark = pytest.mark.usefixtures("host")
NAME = "ab" * 32


def made(seed: int = 1) -> Path:
    return sparse(files.temporary(MEMORY, f"t{seed}"), 64, {0: noise(1, seed), 32: noise(2, seed + 1)})


def joined(name: str = NAME, seed: int = 1) -> Path:
    return files.join(MEMORY, name, made(seed))


def names() -> list[str]:
    return sorted(path.name for path in files.place(MEMORY, NAME).parent.iterdir() if path.suffix != ".lock")


def test_an_image_that_joined_is_found_and_marked_as_used() -> None:
    path = joined()
    os.utime(path, (1, 1))
    assert files.lookup(MEMORY, NAME) == path
    assert path.stat().st_mtime > 1


def test_an_image_that_never_joined_is_not_found() -> None:
    assert files.lookup(MEMORY, NAME) is None


def test_an_image_that_was_damaged_is_dropped_with_its_sum() -> None:
    path = joined()
    with open(path, "r+b") as file:
        file.write(b"damage")
    assert files.lookup(MEMORY, NAME) is None
    assert names() == []


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b'{"digest": 1}', b"\xff\xfe", b"null"])
def test_an_image_with_a_torn_sum_is_dropped(torn: bytes) -> None:
    path = joined()
    path.with_name(NAME + ".sum").write_bytes(torn)
    assert files.lookup(MEMORY, NAME) is None
    assert names() == []


def test_an_image_whose_worker_died_before_its_sum_is_not_believed_and_can_join_again() -> None:
    path = joined()
    path.with_name(NAME + ".sum").unlink()
    assert files.lookup(MEMORY, NAME) is None
    assert files.lookup(MEMORY, NAME) is None
    joined()
    assert files.lookup(MEMORY, NAME) == path


def test_an_image_that_joins_again_replaces_the_first() -> None:
    joined(seed=1)
    path = joined(seed=5)
    assert path.read_bytes() == made(5).read_bytes()
    assert files.lookup(MEMORY, NAME) == path


def test_to_look_whether_an_image_is_intact_drops_nothing() -> None:
    path = joined()
    assert files.intact(MEMORY, NAME)
    with open(path, "r+b") as file:
        file.write(b"damage")
    assert not files.intact(MEMORY, NAME)
    assert names() == [NAME, NAME + ".sum"]


def test_dropping_what_is_not_there_is_harmless() -> None:
    files.drop(MEMORY, NAME)
    joined()
    files.drop(MEMORY, NAME)
    files.drop(MEMORY, NAME)
    assert names() == []


def test_a_reader_keeps_the_bytes_of_an_image_that_is_dropped() -> None:
    path = joined()
    with open(path, "rb") as file:
        whole = path.read_bytes()
        files.drop(MEMORY, NAME)
        assert file.read() == whole


def test_an_image_is_readable_by_its_owner_alone() -> None:
    assert joined().stat().st_mode & 0o777 == 0o600


def test_one_at_a_time_assembles_an_image() -> None:
    entered, order = threading.Event(), list[str]()

    def second() -> None:
        entered.wait()
        with files.single_flight(MEMORY, NAME):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with files.single_flight(MEMORY, NAME):
        entered.set()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_locks_stay_few_however_many_images_there_were() -> None:
    for number in range(300):
        with files.single_flight(MEMORY, f"aa{number:062x}"):
            pass
    assert len(list(files.place(MEMORY, NAME).parent.glob("*.lock"))) == 1
