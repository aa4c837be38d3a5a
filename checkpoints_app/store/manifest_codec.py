"""The stored form of a manifest: header, then one sealed part: zstd of (head as canonical JSON, new packs, extents of each image).

A *full* manifest stands alone. A *delta* names its parent and holds only what differs: packs appended to the parent's table, and for
an image of the same length and base the extents that changed. Byte table: docs/store-format.md.
"""

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import spill
from .codec import CodecError, compress, decompress
from .extents import BASE, EXTENT_BYTES, ZERO, ExtentError, Locations, Runs, apply_runs, decode_runs, encode_runs, runs_where
from .ids import canonical_json
from .manifest import FULL_EVERY, ImageMap, Manifest, check_image, digest_of
from .seal import TAG_BYTES, Opener, Sealer, Section

MAGIC = b"KSMANI\r\n"
VERSION = 1
HEADER = struct.Struct("<8sH32sI")  # magic, version, manifest id, bytes of the part before compression
MAX_FACTS_BYTES = 64 << 10
MAX_HEAD_BYTES = 256 << 10
MAX_PACKS = 1 << 20
MAX_PLAIN_BYTES = 512 << 20
MAX_STORED_BYTES = MAX_PLAIN_BYTES + (1 << 20)
_LENGTH = struct.Struct("<I")
_HEX_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Decoded:
    """One stored manifest before its parent is known."""

    head: dict[str, Any]
    packs: tuple[str, ...]
    columns: list[bytes]

    @property
    def parent(self) -> str | None:
        parent: str | None = self.head["parent"]
        return parent


def encode_manifest(sealer: Sealer, manifest: Manifest, parent: Manifest | None) -> bytes:
    """The object; a delta to `parent` if one is given, whose table of packs must be the beginning of the manifest's."""
    known = len(parent.packs) if parent else 0
    images, columns = [], []
    for name, image in manifest.images.items():
        before = _matching(parent, name, image.length_bytes, image.base)
        runs = _changed(image, before)
        columns.append(encode_runs(runs))
        row = {"name": name, "length": image.length_bytes, "base": image.base, "root": image.root}
        images.append({**row, "delta": before is not None, "extents": len(runs)})
    packs = b"".join(bytes.fromhex(pack) for pack in manifest.packs[known:])
    head = canonical_json(
        {
            "parent": parent.manifest_id if parent else None,
            "facts": dict(manifest.facts),
            "digest": manifest.digest,
            "packs": len(manifest.packs) - known,
            "images": images,
        }
    )
    plain = _LENGTH.pack(len(head)) + head + packs + b"".join(columns)
    if len(head) > MAX_HEAD_BYTES or len(plain) > MAX_PLAIN_BYTES:
        raise ValueError("the manifest is larger than a reader accepts")
    header = HEADER.pack(MAGIC, VERSION, bytes.fromhex(sealer.object_id), len(plain))
    return header + sealer.seal(Section.TABLE, compress(plain))


def _changed(image: ImageMap, before: Locations | None) -> Runs:
    """Where the image lies elsewhere than before, or than an empty one."""
    if before is None:
        nowhere = _nowhere(image.base)
        return runs_where(image.locations, lambda _, piece: piece != nowhere)
    return runs_where(image.locations, lambda first, piece: piece != before[first : first + len(piece)], before)


def decode_manifest(opener: Opener, stored: bytes) -> Decoded:
    """The stored manifest, authentic and well-formed, or IntegrityError."""
    if not HEADER.size + TAG_BYTES < len(stored) <= MAX_STORED_BYTES:
        raise opener.refusal("its size does not fit")
    magic, version, raw_id, plain_bytes = HEADER.unpack_from(stored)
    if (magic, version, raw_id) != (MAGIC, VERSION, bytes.fromhex(opener.object_id)) or plain_bytes > MAX_PLAIN_BYTES:
        raise opener.refusal("its header is not that of this manifest in a format known here")
    packed = opener.open(Section.TABLE, 0, memoryview(stored)[HEADER.size :])
    try:
        return _split(decompress(packed, plain_bytes))
    except CodecError:
        raise opener.refusal("it does not decompress to the size its header says") from None
    except (ValueError, KeyError, TypeError, RecursionError, struct.error):
        raise opener.refusal("its parts do not fit") from None


def resolve(opener: Opener, decoded: Decoded, parent: Manifest | None) -> Manifest:
    """The manifest itself, on the parent that it names (None for a full one). IntegrityError if it does not fit."""
    packs = (parent.packs if parent else ()) + decoded.packs
    ancestors = (parent.manifest_id, *parent.ancestors) if parent else ()
    if len(packs) > MAX_PACKS or len(ancestors) >= FULL_EVERY:
        raise opener.refusal("its line of manifests or its table of packs is too long")
    images: dict[str, ImageMap] = {}
    try:
        for row, columns in zip(decoded.head["images"], decoded.columns, strict=True):
            images[row["name"]] = _image(row, columns, parent, len(packs))
        if len(images) != len(decoded.columns):
            raise opener.refusal("it has an image twice")
        roots = {name: image.root for name, image in images.items()}
        if digest_of(decoded.head["facts"], roots) != decoded.head["digest"]:
            raise opener.refusal("its digest is not that of its roots and facts")
    except (ExtentError, ValueError, KeyError, TypeError):
        raise opener.refusal("its parts do not fit") from None
    return Manifest(opener.object_id, ancestors, decoded.head["facts"], decoded.head["digest"], packs, images)


def _split(plain: bytes) -> Decoded:
    (head_bytes,) = _LENGTH.unpack_from(plain)
    at = _LENGTH.size + head_bytes
    if head_bytes > MAX_HEAD_BYTES or at > len(plain):
        raise ValueError("head")
    head = json.loads(plain[_LENGTH.size : at])
    count = int(head["packs"])
    if not 0 <= count <= MAX_PACKS:
        raise ValueError("packs")
    packs = tuple(plain[at + 32 * i : at + 32 * (i + 1)].hex() for i in range(count))
    at += 32 * count
    columns = []
    for row in head["images"]:
        size = int(row["extents"]) * EXTENT_BYTES
        if not 0 <= size <= len(plain) - at:
            raise ValueError("extents")
        columns.append(plain[at : at + size])
        at += size
    if at != len(plain) or not (head["parent"] is None or _HEX_ID.fullmatch(head["parent"])):
        raise ValueError("parts")
    return Decoded(head, packs, columns)


def _image(row: Mapping[str, Any], columns: bytes, parent: Manifest | None, packs: int) -> ImageMap:
    units = check_image(row["name"], row["length"], row["base"])
    runs = decode_runs(columns, units, packs, has_base=row["base"] is not None)
    before = _matching(parent, row["name"], row["length"], row["base"])
    if (row["delta"] and before is None) or not _HEX_ID.fullmatch(row["root"]):
        raise ValueError("image")
    locations = spill.copy(before) if row["delta"] and before is not None else empty_locations(units, row["base"])
    apply_runs(runs, locations)
    locations.flags.writeable = False
    return ImageMap(row["length"], row["base"], row["root"], locations)


def empty_locations(units: int, base: str | None) -> Locations:
    """The map of an image of which nothing is known yet: all its base's, or all zero."""
    return spill.full(units, _nowhere(base))


def _nowhere(base: str | None) -> int:
    return ZERO if base is None else BASE


def _matching(parent: Manifest | None, name: str, length_bytes: int, base: str | None) -> Locations | None:
    image = parent.images.get(name) if parent else None
    return image.locations if image and (image.length_bytes, image.base) == (length_bytes, base) else None
