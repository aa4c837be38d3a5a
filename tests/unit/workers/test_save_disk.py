"""A capture's disk as the store takes it, out of overlays that qemu-img and qemu-io made."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.unit.workers.disk_chain import UNITS, Chain, write, zero
from tests.unit.workers.sparse_files import PAGE, noise
from workers.save import disk
from workers.save.disk import read_overlays, split_by_base


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "BATCH_PAGES", 8)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.raw"
    path.write_bytes(noise(UNITS, 1))
    return path


def applied(base: Path, overlays: Sequence[Path]) -> tuple[bytes, list[int], list[int]]:
    """(the base with the overlays applied through the code under test, units with content, zero units)"""
    written, zeros = read_overlays(overlays)
    units, found = list[int](), bytearray(base.read_bytes())
    for numbers, content in written.batches():
        for at, unit in enumerate(numbers.tolist()):
            found[unit * PAGE : (unit + 1) * PAGE] = content[at * PAGE : (at + 1) * PAGE]
        units += numbers.tolist()
    for unit in zeros.tolist():
        found[unit * PAGE : (unit + 1) * PAGE] = bytes(PAGE)
    return bytes(found), units, zeros.tolist()


def test_an_overlay_that_nobody_wrote_to_holds_nothing(base: Path) -> None:
    content, units, zeros = applied(base, Chain(base).overlay().overlays)
    assert (content == base.read_bytes(), units, zeros) == (True, [], [])


def test_no_overlay_at_all_holds_nothing(base: Path) -> None:
    assert applied(base, [])[1:] == ([], [])


def test_a_small_write_is_as_small_in_the_overlay(base: Path) -> None:
    chain = Chain(base).overlay(write(7, 1, 0x11), write(500, 2, 0x22))
    content, units, zeros = applied(base, chain.overlays)
    assert (units, zeros) == ([7, 500, 501], [])
    assert content == chain.plain()


def test_the_newest_overlay_wins_over_all_below_it(base: Path) -> None:
    chain = Chain(base)
    chain.overlay(write(0, 64, 0x11), zero(100, 32)).overlay(write(10, 4, 0x22), write(100, 1, 0x33), zero(20, 2)).overlay(
        write(12, 1, 0x44), write(20, 1, 0x55), zero(12, 1), zero(63, 1)
    )
    content, units, zeros = applied(base, chain.overlays)
    assert content == chain.plain()
    assert not set(units) & set(zeros)
    assert {12, 21, 63} <= set(zeros)
    assert {20, 100} <= set(units)


def test_units_ascend_and_come_once(base: Path) -> None:
    chain = Chain(base).overlay(write(90, 50, 1)).overlay(write(3, 100, 2)).overlay(write(60, 1, 3))
    _, units, _ = applied(base, chain.overlays)
    assert units == sorted(set(units))


def test_units_equal_to_the_bases_are_told_apart(base: Path) -> None:
    original = base.read_bytes()
    same = base.with_name("same")
    same.write_bytes(original[200 * PAGE : 230 * PAGE])
    chain = Chain(base).overlay(f"write -s {same} {200 * PAGE} {30 * PAGE}", write(215, 1, 0x77), write(300, 1, 0x77))
    written, _ = read_overlays(chain.overlays)
    differing, equal = split_by_base(written, base)
    assert equal.tolist() == [*range(200, 215), *range(216, 230)]
    assert differing.units.tolist() == [215, 300]
    assert [bytes(content) for _, content in differing.batches()] == [bytes([0x77]) * 2 * PAGE]


def test_a_unit_that_differs_in_its_last_bit_differs(base: Path) -> None:
    almost = bytearray(base.read_bytes()[: 9 * PAGE])
    almost[-1] ^= 1
    file = base.with_name("almost")
    file.write_bytes(almost)
    chain = Chain(base).overlay(f"write -s {file} 0 {9 * PAGE}")
    differing, equal = split_by_base(read_overlays(chain.overlays)[0], base)
    assert (differing.units.tolist(), equal.tolist()) == ([8], list(range(8)))


def test_many_scattered_writes_read_as_the_guest_does(base: Path) -> None:
    random, chain = np.random.default_rng(7), Chain(base)
    for layer in range(3):
        chain.overlay(
            *(
                (zero if random.random() < 0.2 else lambda unit, count: write(unit, count, int(random.integers(1, 256))))(
                    int(random.integers(0, UNITS - 8)), int(random.integers(1, 8))
                )
                for _ in range(12 + layer)
            )
        )
    assert applied(base, chain.overlays)[0] == chain.plain()
