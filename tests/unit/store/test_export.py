"""Export and import of one checkpoint: what goes out of one account comes into another, and is the same content."""

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from checkpoints_app.store import UNIT_BYTES, Backend, LocalBackend, load_manifest, verify_roots
from checkpoints_app.store.export_format import RecordKind
from checkpoints_app.store.restore import restore_image
from tests.export_kit import (
    BASE,
    DEVICES,
    OTHER_ACCOUNT,
    OTHER_KEYS,
    export_to,
    import_from,
    read_to_end,
    records,
    save_machine,
    small_machine,
    source_of,
)
from tests.store_kit import KEYS, content, quick_directory


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    return LocalBackend(tmp_path / "store")


def restored(backend: Backend, manifest_id: str, name: str, over: int = 0) -> bytes:
    """An image of the other account, over a base whose every byte is `over`."""
    manifest = load_manifest(backend, OTHER_KEYS, OTHER_ACCOUNT, manifest_id)
    indexes = verify_roots(backend, OTHER_KEYS, OTHER_ACCOUNT, manifest)
    image = manifest.images[name]
    target = bytearray([over]) * image.length_bytes
    for start, count in zip(*image.zero_runs(), strict=True):
        target[start * UNIT_BYTES : (start + count) * UNIT_BYTES] = bytes(count * UNIT_BYTES)

    def sink(unit: int, data: memoryview) -> None:
        target[unit * UNIT_BYTES : unit * UNIT_BYTES + len(data)] = data

    restore_image(backend, OTHER_KEYS, OTHER_ACCOUNT, manifest, name, sink, indexes=indexes)
    return bytes(target[: image.length_bytes])


def test_every_image_comes_into_another_account_as_it_was(backend: LocalBackend, tmp_path: Path) -> None:
    memory, disk = content(600, seed=1), content(2, seed=2)
    memory[40:90] = 0
    plan = save_machine(backend, memory, {3: disk[0], 4: None, 63: disk[1]})
    export_to(tmp_path / "export", source_of(backend, plan))
    imported = import_from((tmp_path / "export").read_bytes(), backend).manifest
    expected = np.full((64, UNIT_BYTES), 7, np.uint8)
    expected[3], expected[4], expected[63] = disk[0], 0, disk[1]
    assert restored(backend, imported.manifest_id, "memory") == memory.tobytes()
    assert restored(backend, imported.manifest_id, "disk", over=7) == expected.tobytes()
    assert restored(backend, imported.manifest_id, "devices") == DEVICES
    assert imported.images["disk"].base == BASE


def test_the_content_digest_is_the_same_in_both_accounts_and_the_roots_are_not(backend: LocalBackend, tmp_path: Path) -> None:
    plan = small_machine(backend)
    first = export_to(tmp_path / "first", source_of(backend, plan))
    imported = import_from((tmp_path / "first").read_bytes(), backend)
    second = export_to(tmp_path / "second", source_of(backend, imported, OTHER_KEYS, OTHER_ACCOUNT))
    assert (second.content, second.plain_roots) == (first.content, first.plain_roots)
    assert plan.roots["memory"] != imported.roots["memory"]


def test_the_content_digest_changes_with_one_bit_of_one_unit(backend: LocalBackend, tmp_path: Path) -> None:
    memory = content(5)
    first = export_to(tmp_path / "first", source_of(backend, save_machine(backend, memory, {})))
    memory[4, 4095] ^= 1
    second = export_to(tmp_path / "second", source_of(backend, save_machine(backend, memory, {})))
    assert first.content != second.content


def test_two_exports_of_one_checkpoint_share_no_sealed_byte_sequence(backend: LocalBackend, tmp_path: Path) -> None:
    source = source_of(backend, small_machine(backend))
    sealed = []
    for name in ("first", "second"):
        export_to(tmp_path / name, source)
        data = (tmp_path / name).read_bytes()
        sealed.append({data[start + 5 : end] for _, start, end in records(data)})
    assert not sealed[0] & sealed[1]


def test_frames_come_in_image_order_with_one_segment_and_one_trailer(backend: LocalBackend, tmp_path: Path) -> None:
    trailer = export_to(tmp_path / "export", source_of(backend, small_machine(backend)))
    kinds = [kind for kind, _, _ in records((tmp_path / "export").read_bytes())]
    frames = [kind for kind in kinds if kind in (RecordKind.UNITS, RecordKind.ZEROS)]
    assert kinds == [RecordKind.SEGMENT, *frames, RecordKind.TRAILER]
    assert frames == [*[RecordKind.UNITS] * 3, RecordKind.ZEROS, RecordKind.UNITS, RecordKind.UNITS]  # memory, disk, devices
    assert (trailer.frames, trailer.segments) == (6, 1)


def test_neither_content_nor_facts_can_be_read_without_the_key(backend: LocalBackend, tmp_path: Path) -> None:
    marked = np.frombuffer(b"the customer's own words, " * 158, np.uint8)[:UNIT_BYTES].reshape(1, -1)
    export_to(tmp_path / "export", source_of(backend, save_machine(backend, marked, {})))
    data = (tmp_path / "export").read_bytes()
    assert b"customer" not in data
    assert b"pin-1" not in data
    assert KEYS.id_key.reveal() not in data


@settings(max_examples=25, deadline=None)
@given(
    units=st.lists(st.integers(0, 6), min_size=1, max_size=700),
    disk=st.dictionaries(st.integers(0, 63), st.integers(0, 3), max_size=40),
)
def test_any_arrangement_of_units_goes_out_and_comes_in_unchanged(units: list[int], disk: dict[int, int]) -> None:
    """Unit kind 0 is zero; equal numbers are equal content."""
    kinds = np.concatenate((np.zeros((1, UNIT_BYTES), np.uint8), content(6, seed=5)))
    memory = kinds[np.array(units)]
    with quick_directory() as name:
        backend = LocalBackend(Path(name) / "store")
        plan = save_machine(backend, memory, {unit: kinds[kind] if kind else None for unit, kind in disk.items()})
        first = export_to(Path(name) / "first", source_of(backend, plan))
        imported = import_from((Path(name) / "first").read_bytes(), backend)
        second = export_to(Path(name) / "second", source_of(backend, imported, OTHER_KEYS, OTHER_ACCOUNT))
        assert restored(backend, imported.manifest.manifest_id, "memory") == memory.tobytes()
        assert first.content == second.content == read_to_end((Path(name) / "second").read_bytes()).content
