"""An interrupted export is continued behind its last whole frame, and only where it is the same export."""

from pathlib import Path

import numpy as np
import pytest

from checkpoints_app.store import LocalBackend, SecretKey
from checkpoints_app.store.export_format import RECORD, RecordKind
from checkpoints_app.store.export_writer import ExportSource, OtherExportError
from checkpoints_app.store.restore import restore_units
from tests.export_kit import EXPORT_KEY, export_to, import_from, read_to_end, records, save_machine, small_machine, source_of
from tests.store_kit import content


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    return LocalBackend(tmp_path / "store")


@pytest.fixture
def source(backend: LocalBackend) -> ExportSource:
    return source_of(backend, small_machine(backend))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "export"


def cut(file: Path, length: int) -> bytes:
    kept = file.read_bytes()[:length]
    file.write_bytes(kept)
    return kept


def test_cut_anywhere_it_is_continued_to_the_same_content(source: ExportSource, file: Path) -> None:
    whole = export_to(file, source)
    data = file.read_bytes()
    lengths = {length for _, start, end in records(data) for length in (start, start + 1, start + RECORD.size, end - 1, end)}
    for length in sorted({0, 1, 9, 60, *lengths} - {len(data)}):
        file.write_bytes(data[:length])
        continued = export_to(file, source)
        assert continued.content == whole.content
        assert read_to_end(file.read_bytes()) == continued


def test_what_was_whole_stays_and_only_the_rest_is_written(source: ExportSource, file: Path) -> None:
    export_to(file, source)
    third = [end for kind, _, end in records(file.read_bytes()) if kind is RecordKind.UNITS][2]
    kept = cut(file, third + 7)
    trailer = export_to(file, source)
    assert file.read_bytes()[:third] == kept[:third]
    assert trailer.segments == 2


def test_a_continuation_uses_no_key_and_place_twice(source: ExportSource, file: Path) -> None:
    """The frames behind the cut have the same content and numbers as the first time: nothing of their sealed form may be the same."""
    export_to(file, source)
    first = file.read_bytes()
    ends = [end for kind, _, end in records(first) if kind is RecordKind.UNITS]
    cut(file, ends[1] + 3)
    export_to(file, source)
    sealed = [
        {data[start + RECORD.size : end] for _, start, end in records(data) if start >= ends[1]} for data in (first, file.read_bytes())
    ]
    assert not sealed[0] & sealed[1]


def test_it_can_be_cut_and_continued_many_times(source: ExportSource, file: Path, backend: LocalBackend) -> None:
    whole = export_to(file, source)
    for kept in (1, 2, 4):
        ends = [end for kind, _, end in records(file.read_bytes()) if kind in (RecordKind.UNITS, RecordKind.ZEROS)]
        cut(file, ends[kept - 1] + 3)
        trailer = export_to(file, source)
    assert (trailer.content, trailer.segments) == (whole.content, 4)
    import_from(file.read_bytes(), backend)


def test_a_complete_export_is_left_as_it_is(source: ExportSource, file: Path) -> None:
    first = export_to(file, source)
    before = file.read_bytes()
    assert export_to(file, source) == first
    assert file.read_bytes() == before


def test_a_tail_that_a_power_loss_left_as_zeros_is_written_anew(source: ExportSource, file: Path) -> None:
    whole = export_to(file, source)
    data = file.read_bytes()
    ends = [end for kind, _, end in records(data) if kind is RecordKind.UNITS]
    file.write_bytes(data[: ends[2]] + bytes(len(data) - ends[2]))
    assert export_to(file, source).content == whole.content
    read_to_end(file.read_bytes())


@pytest.mark.parametrize("why", ["another checkpoint", "another key", "not an export", "short, not an export"])
def test_a_file_that_is_something_else_is_refused_and_not_touched(
    source: ExportSource, file: Path, backend: LocalBackend, why: str
) -> None:
    key = EXPORT_KEY
    if why == "another checkpoint":
        export_to(file, source_of(backend, save_machine(backend, content(5, seed=9), {})))
        cut(file, file.stat().st_size - 10)
    elif why == "another key":
        export_to(file, source)
        key = SecretKey(bytes(32))
    else:
        file.write_bytes(b"a letter" * (1 if why.startswith("short") else 5000))
    before = file.read_bytes()
    with pytest.raises(OtherExportError):
        export_to(file, source, key)
    assert file.read_bytes() == before


def test_an_export_whose_store_fails_midway_is_continued(source: ExportSource, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def fails_at_the_disk(*arguments: object, **options: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError("the disk went away")
        restore_units(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("checkpoints_app.store.export_writer.restore_units", fails_at_the_disk)
    with pytest.raises(OSError, match="went away"):
        export_to(file, source)
    kinds = [kind for kind, _, _ in records(file.read_bytes())]
    assert RecordKind.UNITS in kinds
    assert RecordKind.TRAILER not in kinds
    assert export_to(file, source).segments == 2


def test_the_units_of_a_window_arrive_in_order_whatever_packs_they_lie_in(backend: LocalBackend, file: Path) -> None:
    """More than one window, with content that repeats far apart."""
    memory = content(9000, seed=4)
    memory[5000:9000] = memory[np.random.default_rng(1).permutation(4000)]
    plan = save_machine(backend, memory, {})
    first = export_to(file, source_of(backend, plan))
    cut(file, file.stat().st_size // 2)
    assert export_to(file, source_of(backend, plan)).content == first.content
