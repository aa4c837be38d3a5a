"""The frames of an export and its head and trailer: what lies in the sealed bodies."""

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from .codec import CodecError, compress, decompress
from .export_format import FRAME_UNITS, MAX_HEAD_BYTES, ZERO_UNITS, RecordKind, Seal
from .extents import Int64s
from .ids import UNIT_BYTES, canonical_json
from .manifest import MAX_IMAGE_UNITS, Manifest, check_image, digest_of
from .packs import RAW, ZSTD
from .pages import Units

_FRAME = struct.Struct("<BBH")  # image, codec, runs
_RUN = np.dtype([("first", "<u4"), ("count", "<u4")])
_DIGEST_BYTES = 32
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ExportedImage:
    name: str
    length_bytes: int
    base: str | None
    root: str  # as the account that exported it has it


@dataclass(frozen=True, eq=False)
class ExportHead:
    """What an export says of itself before its first unit."""

    manifest_id: str
    digest: str  # of the checkpoint, as the account that exported it has it
    facts: Mapping[str, Any]
    images: tuple[ExportedImage, ...]


@dataclass(frozen=True, eq=False)
class Frame:
    """Ascending units of one image (its place in the head): their content, or that they are zero (`units` is None)."""

    image: int
    numbers: Int64s
    units: Units | None


@dataclass(frozen=True)
class Trailer:
    frames: int
    segments: int
    file_digest: str  # BLAKE3 of every byte before it
    plain_roots: Mapping[str, str]
    content: str


def encode_head(manifest: Manifest) -> bytes:
    images = [
        {"name": name, "length": image.length_bytes, "base": image.base, "root": image.root} for name, image in manifest.images.items()
    ]
    head = {"manifest": manifest.manifest_id, "digest": manifest.digest, "facts": dict(manifest.facts), "images": images}
    return canonical_json(head)


def decode_head(seal: Seal, body: bytes) -> ExportHead:
    """IntegrityError unless its parts fit together and its digest is that of its roots and facts."""
    if len(body) > MAX_HEAD_BYTES:
        raise seal.refusal("its head is too long")
    try:
        head = json.loads(body)
        images = tuple(ExportedImage(row["name"], row["length"], row["base"], row["root"]) for row in head["images"])
        for image in images:
            check_image(image.name, image.length_bytes, image.base)
        roots = {image.name: image.root for image in images}
        identities = [head["manifest"], head["digest"], *roots.values()]
        if len(roots) != len(images) or not images or not all(_HEX.fullmatch(one) for one in identities):
            raise ValueError("images")
        if digest_of(head["facts"], roots) != head["digest"]:
            raise seal.refusal("its digest is not that of its roots and facts")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise seal.refusal("the parts of its head do not fit") from None
    return ExportHead(head["manifest"], head["digest"], head["facts"], images)


def encode_frame(frame: Frame) -> tuple[RecordKind, bytes]:
    starts = np.concatenate(([0], np.flatnonzero(np.diff(frame.numbers) != 1) + 1))
    runs = np.zeros(len(starts), _RUN)
    runs["first"], runs["count"] = frame.numbers[starts], np.diff(np.append(starts, len(frame.numbers)))
    if frame.units is None:
        return RecordKind.ZEROS, _FRAME.pack(frame.image, RAW, len(runs)) + runs.tobytes()
    plain = frame.units.reshape(-1).data
    packed = compress(plain)
    smaller = len(packed) < len(plain)
    head = _FRAME.pack(frame.image, ZSTD if smaller else RAW, len(runs)) + runs.tobytes()
    return RecordKind.UNITS, b"".join((head, blake3(plain).digest(), packed if smaller else plain))


def decode_frame(seal: Seal, kind: RecordKind, body: bytes) -> Frame:
    """IntegrityError for anything that `encode_frame` does not write; that its units fit their image is for the reader of all frames."""
    if len(body) < _FRAME.size:
        raise seal.refusal("a frame is cut")
    image, codec, count = _FRAME.unpack_from(body)
    at = _FRAME.size + count * _RUN.itemsize
    limit = FRAME_UNITS if kind is RecordKind.UNITS else ZERO_UNITS
    if not 1 <= count <= limit or len(body) < at or codec not in (RAW, ZSTD):
        raise seal.refusal("a frame's runs do not fit")
    runs = np.frombuffer(body, _RUN, count, _FRAME.size)
    numbers = _numbers(seal, runs, limit)
    if kind is RecordKind.ZEROS:
        if len(body) != at or codec != RAW:
            raise seal.refusal("a frame of zero units has content")
        return Frame(image, numbers, None)
    digest, payload = body[at : at + _DIGEST_BYTES], body[at + _DIGEST_BYTES :]
    plain = _plain(seal, codec, payload, len(numbers) * UNIT_BYTES)
    if blake3(plain).digest() != digest:
        raise seal.refusal("a frame decodes to other content than was exported")
    return Frame(image, numbers, np.frombuffer(plain, np.uint8).reshape(-1, UNIT_BYTES))


def encode_trailer(trailer: Trailer) -> bytes:
    return canonical_json({**vars(trailer), "plain_roots": dict(trailer.plain_roots)})


def decode_trailer(seal: Seal, body: bytes) -> Trailer:
    try:
        return Trailer(**json.loads(body))
    except (ValueError, TypeError, RecursionError):
        raise seal.refusal("the parts of its trailer do not fit") from None


def _numbers(seal: Seal, runs: npt.NDArray[np.void], limit: int) -> Int64s:
    firsts, counts = runs["first"].astype(np.int64), runs["count"].astype(np.int64)
    ends = firsts + counts
    if (counts < 1).any() or counts.sum() > limit or (firsts[1:] <= ends[:-1]).any() or ends[-1] > MAX_IMAGE_UNITS:
        raise seal.refusal("a frame's runs do not ascend or are too long")
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers: Int64s = np.repeat(firsts, counts) + within
    return numbers


def _plain(seal: Seal, codec: int, payload: bytes, plain_bytes: int) -> bytes:
    if codec == RAW:
        if len(payload) != plain_bytes:
            raise seal.refusal("a frame has another size than its runs say")
        return payload
    try:
        return decompress(payload, plain_bytes)
    except CodecError:
        raise seal.refusal("a frame does not decompress to the size that its runs say") from None
