"""A file that is not exactly what was exported is refused, and nothing of it counts."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest

from checkpoints_app.store import IntegrityError, LocalBackend, SecretKey
from checkpoints_app.store.export_format import (
    HEADER,
    MAX_BODY_BYTES,
    RECORD,
    ExportCutError,
    RecordKind,
    Seal,
    header_of,
    record_of,
    segment_of,
)
from checkpoints_app.store.export_frames import Frame, encode_frame
from checkpoints_app.store.export_reader import ExportReader
from tests.export_kit import EXPORT_KEY, export_to, import_from, read_to_end, records, save_machine, small_machine, source_of
from tests.store_kit import content, quick_directory


@pytest.fixture(scope="module")
def exported() -> bytes:
    with quick_directory() as name:
        backend = LocalBackend(Path(name) / "store")
        export_to(Path(name) / "export", source_of(backend, small_machine(backend)))
        return (Path(name) / "export").read_bytes()


@pytest.fixture(scope="module")
def tiny() -> bytes:
    """A file small enough to try every byte of it."""
    with quick_directory() as name:
        backend = LocalBackend(Path(name) / "store")
        memory = content(3)
        memory[:, :] = memory[:, :1]
        export_to(Path(name) / "export", source_of(backend, save_machine(backend, memory, {5: None})))
        return (Path(name) / "export").read_bytes()


def test_a_flipped_bit_in_any_byte_is_refused(tiny: bytes) -> None:
    read_to_end(tiny)
    for at in range(len(tiny)):
        changed = bytearray(tiny)
        changed[at] ^= 1 << at % 8
        with pytest.raises(IntegrityError):
            read_to_end(bytes(changed))


def test_a_file_cut_at_any_byte_is_refused(tiny: bytes) -> None:
    for length in range(len(tiny)):
        with pytest.raises(IntegrityError):
            read_to_end(tiny[:length])


def test_a_cut_file_says_up_to_where_it_is_whole(exported: bytes) -> None:
    frames = [(start, end) for kind, start, end in records(exported) if kind is RecordKind.UNITS]
    with pytest.raises(ExportCutError) as refusal:
        read_to_end(exported[: frames[2][1] - 1])
    assert refusal.value.whole_bytes == frames[1][1]


def test_another_key_is_refused_at_the_head(exported: bytes) -> None:
    with pytest.raises(IntegrityError, match="another key"):
        ExportReader(io.BytesIO(exported), SecretKey(bytes(32)))


def test_bytes_after_the_trailer_are_refused(exported: bytes) -> None:
    with pytest.raises(IntegrityError, match="follows its trailer"):
        read_to_end(exported + b"\0")


def test_another_file_is_told_not_to_be_an_export() -> None:
    with pytest.raises(IntegrityError, match="not an export"):
        ExportReader(io.BytesIO(bytes(1000)), EXPORT_KEY)


def test_a_later_format_is_refused_by_its_number(exported: bytes) -> None:
    later = bytearray(exported)
    struct.pack_into("<H", later, 8, 2)
    with pytest.raises(IntegrityError, match="format version 2"):
        ExportReader(io.BytesIO(later), EXPORT_KEY)


def test_records_that_are_left_out_doubled_or_exchanged_are_refused(exported: bytes) -> None:
    parts = [exported[start:end] for _, start, end in records(exported)]
    head = exported[: len(exported) - sum(map(len, parts))]
    for n in range(len(parts)):
        others = [parts[:n] + parts[n + 1 :], parts[: n + 1] + parts[n:]]
        if n + 1 < len(parts):
            others.append([*parts[:n], parts[n + 1], parts[n], *parts[n + 2 :]])
        for changed in others:
            with pytest.raises(IntegrityError):
                read_to_end(head + b"".join(changed))


@pytest.mark.parametrize("length", [0, 15, MAX_BODY_BYTES + 17, 0xFFFFFFFF])
def test_a_hostile_length_is_refused_before_it_is_read(exported: bytes, length: int) -> None:
    (_, start, _) = next(record for record in records(exported) if record[0] is RecordKind.UNITS)
    changed = bytearray(exported)
    struct.pack_into("<I", changed, start + 1, length)

    class Watched(io.BytesIO):
        asked = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.asked = max(self.asked, size or 0)
            return super().read(size)

    file = Watched(changed)
    with pytest.raises(IntegrityError):
        for _ in ExportReader(file, EXPORT_KEY).frames():
            pass
    assert file.asked <= MAX_BODY_BYTES + 16


def test_a_head_of_a_hostile_length_is_refused(exported: bytes) -> None:
    changed = bytearray(exported)
    struct.pack_into("<I", changed, HEADER.size - 4, 0xFFFFFFFF)
    with pytest.raises(IntegrityError, match="head does not fit"):
        ExportReader(io.BytesIO(changed), EXPORT_KEY)


# -- by one who has the key: the seal says nothing against these


def forged(exported: bytes, *frames: Frame) -> bytes:
    """An export with the same head and these frames, sealed as it should be."""
    head = ExportReader(io.BytesIO(exported), EXPORT_KEY)
    size = HEADER.unpack_from(exported)[-1]
    raw_id = bytes.fromhex(head.export_id)
    body = Seal(EXPORT_KEY, raw_id).open(RecordKind.HEAD, 0, exported[HEADER.size : HEADER.size + size])
    header = header_of(EXPORT_KEY, body)
    seal = Seal(EXPORT_KEY, HEADER.unpack_from(header)[3])
    out = [header, segment_of(seal, 0)]
    for number, frame in enumerate(frames):
        kind, encoded = encode_frame(frame)
        out.append(record_of(seal, kind, number, encoded))
    return b"".join(out)


def units(*numbers: int, image: int = 0) -> Frame:
    return Frame(image, np.array(numbers), content(len(numbers)))


def zeros(*numbers: int, image: int = 1) -> Frame:
    return Frame(image, np.array(numbers), None)


BAD_FRAMES = {
    "a unit twice": (units(1, 2), units(2, 3)),
    "backwards": (units(9), units(1)),
    "behind the image's end": (units(599, 600),),
    "of an image that is not there": (units(0, image=3),),
    "of an image that was finished": (units(0, image=1), units(0, image=0)),
    "zero units where there is no base": (zeros(1, image=0),),
    "zero units after content": (units(1, image=1), zeros(2)),
    "zero and not": (zeros(1, 2, 3), units(2, image=1)),
    "content behind the image's last byte": (units(2, image=2),),
}


@pytest.mark.parametrize("frames", BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
def test_frames_that_no_exporter_writes_are_refused(exported: bytes, frames: tuple[Frame, ...]) -> None:
    with pytest.raises(IntegrityError) as refusal:
        read_to_end(forged(exported, *frames))
    assert not isinstance(refusal.value, ExportCutError)


def test_a_bomb_is_not_inflated(exported: bytes) -> None:
    """A frame of one unit whose zstd frame says, and holds, a gigabyte."""
    import zstandard

    compressor = zstandard.ZstdCompressor(level=1).compressobj(size=1 << 30)
    bomb = b"".join([*(compressor.compress(bytes(1 << 20)) for _ in range(1 << 10)), compressor.flush()])
    assert len(bomb) < MAX_BODY_BYTES
    _, whole = encode_frame(units(1))
    head = bytearray(whole[:12])
    head[1] = 1  # zstd
    data = forged(exported)
    seal = Seal(EXPORT_KEY, HEADER.unpack_from(data)[3])
    (_, start, end) = next(records(data))
    seal.start_segment(data[start + RECORD.size : start + RECORD.size + 32])
    record = record_of(seal, RecordKind.UNITS, 0, bytes(head) + bytes(32) + bomb)
    with pytest.raises(IntegrityError, match="does not decompress"):
        read_to_end(data[:end] + record)


def test_a_refused_file_leaves_no_object_behind(exported: bytes, tmp_path: Path) -> None:
    changed = bytearray(exported)
    changed[-20] ^= 1  # in the trailer: everything before it is authentic
    backend = LocalBackend(tmp_path)
    with pytest.raises(IntegrityError):
        import_from(bytes(changed), backend)
    assert list(backend.list("")) == []
