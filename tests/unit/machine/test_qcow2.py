"""The qcow2 writer, judged by qemu-img."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.machine.qemu.extents import allocated_extents
from workers.machine.qemu.qcow2 import CLUSTER, write_overlay

UNITS = 3000  # several second-level tables, the last one not full


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    path = tmp_path_factory.mktemp("base") / "disk.raw"
    path.write_bytes(b"".join(number.to_bytes(4, "big") * (CLUSTER // 4) for number in range(UNITS)))
    return path


def flat(path):
    """The whole disk as a guest would read it."""
    out = path.with_suffix(".raw")
    subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", path, out], check=True)
    return out.read_bytes()


def checked(path, disk_bytes, base, units):
    write_overlay(path, disk_bytes, base, units)
    subprocess.run(["qemu-img", "check", "-q", "-f", "qcow2", path], check=True)
    return path


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.integers(0, UNITS - 1), st.none() | st.binary(min_size=1, max_size=16), max_size=200))
def test_any_units_over_any_base_read_back_as_they_were_given(base, tmp_path_factory, changes):
    units = {unit: None if data is None else (data * CLUSTER)[:CLUSTER] for unit, data in changes.items()}
    path = checked(tmp_path_factory.mktemp("disk") / "disk.qcow2", UNITS * CLUSTER, base, sorted(units.items()))
    expected = bytearray(base.read_bytes())
    for unit, data in units.items():
        expected[unit * CLUSTER : (unit + 1) * CLUSTER] = data or bytes(CLUSTER)
    assert flat(path) == expected


def test_a_disk_whose_every_unit_differs_is_sound(base, tmp_path):
    path = checked(tmp_path / "disk.qcow2", UNITS * CLUSTER, base, ((unit, b"\xaa" * CLUSTER) for unit in range(UNITS)))
    assert flat(path) == b"\xaa" * CLUSTER * UNITS


def test_reference_counts_that_need_several_blocks_are_sound(tmp_path):
    base = tmp_path / "base.raw"
    base.touch()
    disk_bytes = 64 << 20
    base.open("r+b").truncate(disk_bytes)
    checked(tmp_path / "disk.qcow2", disk_bytes, base, ((unit, b"\x55" * CLUSTER) for unit in range(0, disk_bytes // CLUSTER, 2)))


def test_a_large_disk_with_one_unit_is_a_small_file(tmp_path):
    base = tmp_path / "base.raw"
    base.touch()
    base.open("r+b").truncate(1 << 40)
    path = checked(tmp_path / "disk.qcow2", 1 << 40, base, [((1 << 40) // CLUSTER - 1, b"z" * CLUSTER)])
    assert path.stat().st_blocks * 512 < 8 << 20


def test_what_was_written_is_what_the_extents_say(base, tmp_path):
    units = [(0, None), (1, b"a" * CLUSTER), (2, b"b" * CLUSTER), (700, b"c" * CLUSTER)]
    path = checked(tmp_path / "disk.qcow2", UNITS * CLUSTER, base, units)
    extents = list(allocated_extents(path))
    told = [(extent.offset // CLUSTER, extent.length // CLUSTER, extent.zero) for extent in extents]
    assert told == [(0, 1, True), (1, 2, False), (700, 1, False)]
    assert path.read_bytes()[extents[1].file_offset :][: 2 * CLUSTER] == b"a" * CLUSTER + b"b" * CLUSTER


def test_the_base_is_named_with_its_format_so_that_nothing_is_probed(base, tmp_path):
    path = checked(tmp_path / "disk.qcow2", UNITS * CLUSTER, base, [])
    told = subprocess.run(["qemu-img", "info", path], check=True, capture_output=True, text=True).stdout
    assert f"backing file: {base}" in told
    assert "backing file format: raw" in told


@pytest.mark.parametrize(
    ("disk_bytes", "units"),
    [
        (CLUSTER + 1, []),
        (0, []),
        (4 * CLUSTER, [(2, None), (1, None)]),
        (4 * CLUSTER, [(1, None), (1, None)]),
        (4 * CLUSTER, [(4, None)]),
        (4 * CLUSTER, [(-1, None)]),
        (4 * CLUSTER, [(0, b"short")]),
    ],
)
def test_units_that_make_no_disk_are_refused(base, tmp_path, disk_bytes, units):
    with pytest.raises(ValueError, match=r"unit|Unit"):
        write_overlay(tmp_path / "disk.qcow2", disk_bytes, base, units)


def test_an_existing_file_is_never_overwritten(base, tmp_path):
    (tmp_path / "disk.qcow2").write_text("somebody's")
    with pytest.raises(FileExistsError):
        write_overlay(tmp_path / "disk.qcow2", UNITS * CLUSTER, base, [])
    assert (tmp_path / "disk.qcow2").read_text() == "somebody's"
