"""The last object of a save: the manifest, made, decoded again, and made durable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import spill
from .backends.backend import Backend, Step
from .extents import UNIT_BITS, UNIT_MASK, Int64s, Locations
from .keys import AccountKeys
from .manifest import FULL_EVERY, ImageMap, Manifest, digest_of, referenced_ordinals
from .manifest_codec import decode_manifest, encode_manifest, resolve
from .names import object_key
from .seal import Kind, Opener, Sealer


@dataclass(frozen=True, eq=False)
class Contents:
    """What a manifest says, before it has an id. The table of packs begins with the parent's."""

    facts: Mapping[str, Any]
    packs: Sequence[str]
    images: Mapping[str, ImageMap]


def write_manifest(
    backend: Backend,
    keys: AccountKeys,
    account_id: str,
    contents: Contents,
    parent: Manifest | None,
    step: Step,
) -> tuple[Manifest, int]:
    """Make the manifest durable; returns it and its stored bytes. As a delta to the parent unless that makes the line too long.

    Prerequisite: every pack in it is durable. IntegrityError if what was encoded decodes to something else: then nothing is stored.
    """
    if parent and len(parent.ancestors) + 1 >= FULL_EVERY:
        parent = None
    sealer = Sealer(keys, Kind.MANIFEST, account_id)
    meant = _manifest(sealer.object_id, contents, parent)
    stored = encode_manifest(sealer, meant, parent)
    opener = Opener(keys, Kind.MANIFEST, account_id, sealer.object_id)
    manifest = resolve(opener, decode_manifest(opener, stored), parent)
    if not all(_same(manifest.images[name].locations, image.locations) for name, image in meant.images.items()):
        raise opener.refusal("it decodes to another map than was given")
    step("manifest_verified")
    batch = backend.batch(lambda name: step(f"manifest.{name}"))
    try:
        batch.put(object_key(account_id, Kind.MANIFEST, sealer.object_id), [stored])
        batch.publish()
    finally:
        batch.discard()
    step("manifest_durable")
    return manifest, len(stored)


def _same(found: Locations, meant: Locations) -> bool:
    return len(found) == len(meant) and all(np.array_equal(piece, meant[at : at + len(piece)]) for at, piece in spill.pieces(found, meant))


def _manifest(manifest_id: str, contents: Contents, parent: Manifest | None) -> Manifest:
    images, packs = dict(contents.images), tuple(contents.packs)
    if parent is None:
        images, packs = _compacted(images, packs)
    ancestors = (parent.manifest_id, *parent.ancestors) if parent else ()
    digest = digest_of(contents.facts, {name: image.root for name, image in images.items()})
    return Manifest(manifest_id, ancestors, contents.facts, digest, packs, images)


def _compacted(images: dict[str, ImageMap], packs: tuple[str, ...]) -> tuple[dict[str, ImageMap], tuple[str, ...]]:
    """The same with a table of only the packs in use. Where all are, as at a first save, the maps are not copied."""
    used = referenced_ordinals(images)
    if len(used) == len(packs):
        return images, packs
    renumbered = np.full(len(packs), -1, np.int64)
    renumbered[used] = np.arange(len(used))
    compacted = {name: replace(image, locations=_renumbered(image.locations, renumbered)) for name, image in images.items()}
    return compacted, tuple(packs[ordinal] for ordinal in used)


def _renumbered(before: Locations, ordinals: Int64s) -> Locations:
    locations = spill.copy(before)
    for _, piece in spill.pieces(locations):
        held = np.flatnonzero(piece >= 0)
        piece[held] = (ordinals[piece[held] >> UNIT_BITS] << UNIT_BITS) | (piece[held] & UNIT_MASK)
    return locations
