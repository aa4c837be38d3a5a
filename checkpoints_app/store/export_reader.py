"""Reading an export as a stream: every byte is checked, in one pass, with the memory of one frame."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from blake3 import blake3

from .errors import IntegrityError
from .export_digest import PlainRoot, content_digest
from .export_format import (
    HEADER,
    MAGIC,
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    RECORD,
    SALT_BYTES,
    TAG_BYTES,
    VERSION,
    ExportCutError,
    RecordKind,
    Seal,
)
from .export_frames import ExportHead, Frame, Trailer, decode_frame, decode_head, decode_trailer
from .ids import UNIT_BYTES, units_of
from .keys import SecretKey


class ExportReader:
    """`head` is authentic after the constructor; the rest after `frames` has been read to its end, which sets `trailer`.

    Raises IntegrityError for a file that is not an export, another key or any changed byte, and ExportCutError where the file ends early.
    `file` need not be seekable. `whole_bytes`, `frame_count`, `seal` and `roots` tell where a continuation begins.
    """

    def __init__(self, file: BinaryIO, key: SecretKey):
        self._file, self._hasher = file, blake3()
        self.whole_bytes, self.frame_count, self.segments = 0, 0, 0
        self.trailer: Trailer | None = None
        self._export_id, self.bytes_read = "unknown", 0
        self._segment = b""  # a segment whose first record has not come yet
        header = self._read(HEADER.size)
        magic, version, unit_bytes, raw_id, head_bytes = HEADER.unpack(header)
        if magic != MAGIC:
            raise IntegrityError("export", "unknown", "the file is not an export of a checkpoint")
        self._export_id = raw_id.hex()
        self.seal = Seal(key, raw_id)
        if (version, unit_bytes) != (VERSION, UNIT_BYTES):
            raise self.seal.refusal(f"format version {version} is not known here (known: {VERSION})")
        if not TAG_BYTES < head_bytes <= MAX_HEAD_BYTES + TAG_BYTES:
            raise self.seal.refusal("its head does not fit")
        sealed = self._read(head_bytes)
        self.head: ExportHead = decode_head(self.seal, self.seal.open(RecordKind.HEAD, 0, sealed))
        self._accept(header + sealed)
        self.roots = [PlainRoot(image.length_bytes, image.base) for image in self.head.images]
        self._order = _Order(self.head, self.seal)

    @property
    def export_id(self) -> str:
        return self._export_id

    @property
    def bytes_hashed(self) -> blake3:
        """The digest of everything up to `whole_bytes`, to go on from."""
        return self._hasher.copy()

    def frames(self) -> Iterator[Frame]:
        """Every frame, verified. What was taken from it is worth nothing if it ends with an error."""
        while self.trailer is None:
            header = self._read(RECORD.size)
            kind, stored = self._kind(header)
            body = self._read(stored)
            if kind is RecordKind.SEGMENT:
                self.seal.start_segment(body[:SALT_BYTES])
                self.seal.open(kind, self.frame_count, body[SALT_BYTES:])
                self._segment = header + body
                continue
            plain = self.seal.open(kind, self.frame_count, body)
            if kind is RecordKind.TRAILER:
                self._finish(decode_trailer(self.seal, plain))
                continue
            frame = decode_frame(self.seal, kind, plain)
            self._order.check(frame, self.roots)
            self._learn(frame)
            self.frame_count += 1
            self._accept(header + body)
            yield frame

    def _kind(self, header: bytes) -> tuple[RecordKind, int]:
        raw_kind, stored = RECORD.unpack(header)
        if raw_kind not in (RecordKind.SEGMENT, RecordKind.ZEROS, RecordKind.UNITS, RecordKind.TRAILER):
            raise self.seal.refusal("a record is of no kind known here")
        kind = RecordKind(raw_kind)
        if kind is RecordKind.SEGMENT:
            fits = stored == SALT_BYTES + TAG_BYTES and not self._segment
        else:
            fits = TAG_BYTES < stored <= MAX_BODY_BYTES + TAG_BYTES and bool(self.segments or self._segment)
        if not fits:
            raise self.seal.refusal("a record has another length, or another place, than its kind allows")
        return kind, stored

    def _finish(self, trailer: Trailer) -> None:
        self._accept(b"")
        roots = {image.name: root.finish() for image, root in zip(self.head.images, self.roots, strict=True)}
        expected = Trailer(self.frame_count, self.segments, self._hasher.hexdigest(), roots, content_digest(self.head.facts["pin"], roots))
        if trailer != expected:
            raise self.seal.refusal("its trailer is not that of what was read")
        if self._file.read(1):
            raise self.seal.refusal("something follows its trailer")
        self.trailer = trailer

    def _learn(self, frame: Frame) -> None:
        if frame.units is None:
            self.roots[frame.image].zeros(frame.numbers)
        else:
            self.roots[frame.image].add(frame.numbers, frame.units)

    def _accept(self, raw: bytes) -> None:
        """Everything up to here is whole: a continuation may begin behind it. A segment counts with the first record in it."""
        self._hasher.update(self._segment + raw)
        self.segments += bool(self._segment)
        self._segment = b""
        self.whole_bytes = self.bytes_read

    def _read(self, length: int) -> bytes:
        parts: list[bytes] = []
        left = length
        while left:
            part = self._file.read(left)
            if not part:
                raise ExportCutError(self._export_id, self.whole_bytes)
            parts.append(part)
            left -= len(part)
        self.bytes_read += length
        return b"".join(parts)


class _Order:
    """Frames come image by image; in one, first the zero units, then those with content; each ascending, inside it, none twice."""

    def __init__(self, head: ExportHead, seal: Seal):
        self._head, self._seal = head, seal
        self._image = -1
        self._last = {False: -1, True: -1}  # by whether the frame has content

    def check(self, frame: Frame, roots: Sequence[PlainRoot]) -> None:
        if frame.image >= len(self._head.images) or frame.image < self._image:
            raise self._seal.refusal("a frame is of no image, or of one that was finished")
        if frame.image > self._image:
            self._image, self._last = frame.image, {False: -1, True: -1}
        image, full = self._head.images[frame.image], frame.units is not None
        ascends = int(frame.numbers[0]) > self._last[full] and int(frame.numbers[-1]) < units_of(image.length_bytes)
        if not ascends or (not full and (image.base is None or self._last[True] >= 0)):
            raise self._seal.refusal("the units of a frame do not follow those before it")
        self._last[full] = int(frame.numbers[-1])
        if frame.units is None:
            return
        if roots[frame.image].any_zero(frame.numbers):
            raise self._seal.refusal("a unit is both zero and not")
        tail = image.length_bytes - int(frame.numbers[-1]) * UNIT_BYTES
        if tail < UNIT_BYTES and frame.units[-1, tail:].any():
            raise self._seal.refusal("its last unit does not end where the image ends")
