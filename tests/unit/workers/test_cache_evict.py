"""Eviction: within the bound, the least recently used first, and never what is needed."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from tests.unit.workers.sparse_files import PAGE, noise, sparse
from workers.cache import files
from workers.cache.evict import SPARED_SECONDS, evict
from workers.cache.files import DEVICES, DISK, MEMORY
from workers.host.identity import machines_directory
from workers.host.note import write_note

pytestmark = pytest.mark.usefixtures("host")
PAGES = 64
AGES = {"aa": 4000, "bb": 3000, "cc": 2000, "dd": 1000}  # seconds since each was used


@pytest.fixture
def cached() -> Callable[[], list[str]]:
    """Four images of 256 KiB, of all kinds; returns those that are there."""
    kinds = dict(zip(AGES, (MEMORY, DISK, DEVICES, MEMORY), strict=True))
    for number, (name, kind) in enumerate(kinds.items()):
        path = files.join(kind, name, sparse(files.temporary(kind, name), PAGES, {0: noise(PAGES, number)}))
        os.utime(path, (time.time() - AGES[name],) * 2)
    return lambda: [name for name, kind in kinds.items() if files.place(kind, name).exists()]


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Callable[[float], None]:
    """Sets the bound, in images of the fixture above: gibibytes are counted in smaller steps here."""

    def set_bound(images: float) -> None:
        settings.KEEPSTATE_CACHE_GIB = Shifted(int(images * PAGES * PAGE))

    return set_bound


class Shifted(int):
    """A number of gibibytes that is a whole number of bytes."""

    def __lshift__(self, bits: int) -> int:
        return int(self)


def test_a_cache_within_its_bound_keeps_everything(cached: Callable[[], list[str]], bound: Callable[[float], None]) -> None:
    bound(4)
    assert evict() == 0
    assert cached() == ["aa", "bb", "cc", "dd"]


@pytest.mark.parametrize(("images", "left"), [(3, ["bb", "cc", "dd"]), (2.5, ["cc", "dd"]), (1, ["dd"]), (0, [])])
def test_what_was_used_longest_ago_goes_first(
    cached: Callable[[], list[str]], bound: Callable[[float], None], images: float, left: list[str]
) -> None:
    bound(images)
    assert evict() == (4 - len(left)) * PAGES * PAGE
    assert cached() == left


def test_the_sum_goes_with_its_image(cached: Callable[[], list[str]], bound: Callable[[float], None]) -> None:
    bound(0)
    evict()
    assert [path.name for kind in (MEMORY, DISK, DEVICES) for path in files.place(kind, "x").parent.glob("*.sum")] == []


def test_what_a_machine_was_started_from_stays(cached: Callable[[], list[str]], bound: Callable[[float], None]) -> None:
    runtime = machines_directory() / "session.1"
    runtime.mkdir(parents=True)
    write_note(runtime, checkpoint="ck", overlay="", images=["aa", "cc"])
    bound(0)
    evict()
    assert cached() == ["aa", "cc"]


def test_what_was_used_a_moment_ago_stays_for_it_may_be_on_its_way_into_a_machine(
    cached: Callable[[], list[str]], bound: Callable[[float], None]
) -> None:
    assert files.lookup(MEMORY, "aa") is not None
    bound(0)
    evict()
    assert cached() == ["aa"]
    os.utime(files.place(MEMORY, "aa"), (time.time() - SPARED_SECONDS - 1,) * 2)
    evict()
    assert cached() == []


def test_what_another_worker_is_assembling_is_left_alone(cached: Callable[[], list[str]], bound: Callable[[float], None]) -> None:
    bound(0)
    with files.single_flight(MEMORY, "aa"):
        evict()
        assert cached() == ["aa"]
    evict()
    assert cached() == []


def test_an_image_that_goes_while_the_cache_is_looked_through_is_no_error(
    cached: Callable[[], list[str]], bound: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = Path.stat

    def gone(path: Path, **options: bool) -> os.stat_result:
        if path.name == "aa":
            path.unlink(missing_ok=True)
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", gone)
    bound(1)
    evict()
    assert cached() == ["dd"]


def test_half_made_images_of_dead_workers_are_removed_and_of_living_ones_are_not() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    dead = files.place(MEMORY, f"tmp-{child.pid}-x")
    mine = files.temporary(MEMORY, "y")
    for path in (dead, mine):
        path.write_text("half")
    evict()
    assert (dead.exists(), mine.exists()) == (False, True)


def test_a_host_without_a_cache_has_nothing_to_evict() -> None:
    assert evict() == 0
