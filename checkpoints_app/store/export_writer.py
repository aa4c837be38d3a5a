"""Writing an export: begun in an empty file, or continued in one that was cut, behind its last whole frame."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

import numpy as np
from blake3 import blake3

from .backends.backend import Backend
from .errors import IntegrityError
from .export_digest import PlainRoot, content_digest
from .export_format import FRAME_UNITS, MAGIC, ZERO_UNITS, ExportCutError, RecordKind, header_of, record_of, segment_of
from .export_frames import Frame, Trailer, encode_frame, encode_head, encode_trailer
from .export_reader import ExportReader
from .extents import ZERO, Int64s
from .generations import Generations
from .ids import UNIT_BYTES
from .keys import AccountKeys, SecretKey
from .manifest import Manifest
from .pages import Units
from .reader import PackIndexes, load_manifest, verify_roots
from .restore import restore_units

_WINDOW_FRAMES = 32  # 32 MiB of units are put in order at a time
Tell = Callable[[int, int], None]  # units done, units there are


class OtherExportError(ValueError):
    """The file holds something else than an export of this checkpoint under this key; it was not touched."""


@dataclass(frozen=True, eq=False)
class ExportSource:
    """A stored checkpoint whose roots have been verified."""

    backend: Backend
    keys: AccountKeys
    account_id: str
    manifest: Manifest
    indexes: PackIndexes
    generations: Generations | None

    @classmethod
    def load(
        cls, backend: Backend, keys: AccountKeys, account_id: str, manifest_id: str, *, generations: Generations | None = None
    ) -> "ExportSource":
        """Raises IntegrityError, MissingObjectError or BackendError."""
        manifest = load_manifest(backend, keys, account_id, manifest_id)
        indexes = verify_roots(backend, keys, account_id, manifest, generations=generations)
        return cls(backend, keys, account_id, manifest, indexes, generations)

    def read(self, name: str, units: Int64s) -> Units:
        """The content of these ascending units of an image, verified; shape (n, 4096), zero behind the image's end."""
        content: Units = np.zeros((len(units), UNIT_BYTES), np.uint8)
        flat = content.reshape(-1)

        def place(first: int, data: memoryview) -> None:
            at = int(np.searchsorted(units, first)) * UNIT_BYTES
            flat[at : at + len(data)] = data

        where = self.backend, self.keys, self.account_id, self.manifest
        restore_units(*where, name, units, place, indexes=self.indexes, generations=self.generations)
        return content


def write_export(source: ExportSource, file: BinaryIO, key: SecretKey, *, tell: Tell = lambda done, total: None) -> Trailer:
    """Make `file` a whole export, durable where it is a file of a disk. An empty file is begun, a cut export of this checkpoint continued.

    Prerequisite: open for reading and writing, and nobody else writes to it. Raises OtherExportError (nothing was written), and
    IntegrityError, MissingObjectError, BackendError or OSError: the file is then cut, and can be continued.
    """
    head = encode_head(source.manifest)
    writing = _Writing(source, file, key)
    if file.seek(0, os.SEEK_END) == 0:
        writing.begin(head)
    elif (trailer := writing.catch_up(head)) is not None:
        return trailer
    trailer = writing.go_on(tell)
    file.flush()
    os.fsync(file.fileno())
    return trailer


class _Writing:
    """The state of one export while it is written: the digest of the file so far, frames and segments in it, roots of its content."""

    def __init__(self, source: ExportSource, file: BinaryIO, key: SecretKey):
        self._source, self._file, self._key = source, file, key
        self._hasher, self._frames, self._segments = blake3(), 0, 0
        images = source.manifest.images
        self._roots = [PlainRoot(image.length_bytes, image.base) for image in images.values()]

    def begin(self, head: bytes) -> None:
        self._file.seek(0)
        self._put(header_of(self._key, head))
        self._file.flush()
        self._adopt()

    def _adopt(self) -> ExportReader:
        """The file's own words about itself: its id, and the seal that belongs to it."""
        self._file.seek(0)
        reader = ExportReader(self._file, self._key)
        self._seal = reader.seal
        return reader

    def catch_up(self, head: bytes) -> Trailer | None:
        """Read what is there and cut it behind its last whole frame; the trailer, if it is complete."""
        try:
            reader = self._adopt()
        except ExportCutError:  # within its head
            self._file.seek(0)
            if not MAGIC.startswith(self._file.read(len(MAGIC))):
                raise OtherExportError("it is too short for an export, and does not begin as one") from None
            self._file.truncate(0)
            self.begin(head)
            return None
        except IntegrityError as error:
            raise OtherExportError(str(error)) from None
        if (reader.head.manifest_id, reader.head.digest) != (self._source.manifest.manifest_id, self._source.manifest.digest):
            raise OtherExportError("it is an export of another checkpoint")
        try:
            for _ in reader.frames():
                pass
            return reader.trailer
        except IntegrityError:  # what follows the last whole frame is no good, for whatever reason: it is written anew
            self._hasher, self._frames, self._segments = reader.bytes_hashed, reader.frame_count, reader.segments
            self._roots = reader.roots
            self._file.truncate(reader.whole_bytes)
        return None

    def go_on(self, tell: Tell) -> Trailer:
        self._file.seek(0, os.SEEK_END)
        self._put(segment_of(self._seal, self._frames))
        self._segments += 1
        total = sum(int((image.locations >= 0).sum()) for image in self._source.manifest.images.values())
        done = 0
        for plan in _plans(self._source.manifest):
            for frame in plan.frames(self._source, self._frames):
                kind, body = encode_frame(frame)
                self._put(record_of(self._seal, kind, self._frames, body))
                self._learn(frame)
                self._frames += 1
            done += plan.held
            tell(done, total)
        roots = {name: root.finish() for name, root in zip(self._source.manifest.images, self._roots, strict=True)}
        content = content_digest(self._source.manifest.facts["pin"], roots)
        trailer = Trailer(self._frames, self._segments, self._hasher.hexdigest(), roots, content)
        self._put(record_of(self._seal, RecordKind.TRAILER, self._frames, encode_trailer(trailer)))
        return trailer

    def _learn(self, frame: Frame) -> None:
        if frame.units is None:
            self._roots[frame.image].zeros(frame.numbers)
        else:
            self._roots[frame.image].add(frame.numbers, frame.units)

    def _put(self, raw: bytes) -> None:
        self._file.write(raw)
        self._hasher.update(raw)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Neighbouring frames whose units are read from the store together. The same checkpoint always has the same plans."""

    first: int  # number of its first frame
    image: int
    name: str
    zero: bool
    parts: list[Int64s]  # units of each frame

    @property
    def held(self) -> int:
        return 0 if self.zero else sum(map(len, self.parts))

    def frames(self, source: ExportSource, after: int) -> Iterator[Frame]:
        """Those frames from number `after` on."""
        parts = self.parts[max(0, after - self.first) :]
        if self.zero or not parts:
            yield from (Frame(self.image, part, None) for part in parts)
            return
        content, at = source.read(self.name, np.concatenate(parts)), 0
        for part in parts:
            yield Frame(self.image, part, content[at : at + len(part)])
            at += len(part)


def _plans(manifest: Manifest) -> Iterator[_Plan]:
    first = 0
    for number, (name, image) in enumerate(manifest.images.items()):
        zeros = np.flatnonzero(image.locations == ZERO) if image.base is not None else np.empty(0, np.int64)
        for zero, parts in ((True, _cut(zeros, ZERO_UNITS)), (False, _cut(np.flatnonzero(image.locations >= 0), FRAME_UNITS))):
            while window := list(islice(parts, _WINDOW_FRAMES)):
                yield _Plan(first, number, name, zero, window)
                first += len(window)


def _cut(units: Int64s, length: int) -> Iterator[Int64s]:
    return (units[start : start + length] for start in range(0, len(units), length))
