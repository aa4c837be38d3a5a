"""What a pack held that does not tell it any more: its units' ids, out of checkpoints that hold the same images.

A manifest says where units lie, not which they are; an image's root is over the ids of all its units. So two images with one root have
the same units in the same places, and where one lies in the lost pack, the other says what was there. Nothing less proves it: an image
that differs in one unit has another root, and then of none of its units is it known that it is the same.
"""

from collections.abc import Iterator

import numpy as np
from django.db.models import Q

from checkpoints_app.models import Checkpoint, Pack
from checkpoints_app.services import storage
from checkpoints_app.states import CheckpointState
from checkpoints_app.store import AccountKeys, Manifest, StoreError, load_manifest, verify_roots
from checkpoints_app.store.extents import UNIT_BITS, UNIT_MASK, Int64s, Locations
from checkpoints_app.store.ids import Ids, type_ids

_NEEDING = 16  # checkpoints that need the pack
_TWINS = 4  # of each
_PIECE = 1 << 20


def ids_of(row: Pack, keys: AccountKeys, wanted: Int64s) -> Ids | None:
    """Ids of these units of the pack, one for each, or None unless all can be had. BackendError."""
    ids: Ids = np.zeros((row.unit_count, 4), type_ids)
    for one, other in _pairs(row, keys):
        for name, image in one.images.items():
            if name in other.images and other.images[name].root == image.root and row.id in one.packs:
                places, numbers = _held(image.locations, one.packs.index(row.id))
                if len(places) and not ids[numbers].any(axis=1).all():
                    ids[numbers] = _ids_at(row.account_id, keys, other, name, places)
        if ids[wanted].any(axis=1).all():
            return ids[wanted]
    return None


def _pairs(row: Pack, keys: AccountKeys) -> Iterator[tuple[Manifest, Manifest]]:
    """Checkpoints that need the pack, each with those that may be its twins and are whole themselves."""
    needing = Checkpoint.objects.filter(edges__pack=row).exclude(manifest_id="").order_by("-created_at", "-id")
    for checkpoint in needing[:_NEEDING]:
        same = Q(memory_root=checkpoint.memory_root) | Q(disk_root=checkpoint.disk_root, disk_root__gt="")
        whole = Checkpoint.objects.filter(same, account_id=row.account_id, state=CheckpointState.PUBLISHED).exclude(edges__pack=row)
        for twin in whole.order_by("-created_at", "-id")[:_TWINS]:
            try:
                yield _manifest(checkpoint, keys), _manifest(twin, keys)
            except StoreError:  # its own turn in the sweep judges it
                continue


def _manifest(row: Checkpoint, keys: AccountKeys) -> Manifest:
    return load_manifest(storage.backend(), keys, row.account_id, row.manifest_id)


def _held(locations: Locations, ordinal: int) -> tuple[Int64s, Int64s]:
    """The image's units that lie in the pack, and the pack's units that they are."""
    pieces = ((start, locations[start : start + _PIECE]) for start in range(0, len(locations), _PIECE))
    places = np.concatenate([start + np.flatnonzero(piece >> UNIT_BITS == ordinal) for start, piece in pieces])
    return places, locations[places] & UNIT_MASK


def _ids_at(account_id: str, keys: AccountKeys, manifest: Manifest, name: str, places: Int64s) -> Ids:
    """Ids of these units of an image, after its root was compared. IntegrityError, MissingObjectError, BackendError."""
    indexes = verify_roots(storage.backend(), keys, account_id, manifest, generations=storage.generations)
    locations = manifest.images[name].locations[places]
    ids: Ids = np.zeros((len(places), 4), type_ids)
    for ordinal in np.unique(locations >> UNIT_BITS).tolist():
        here = locations >> UNIT_BITS == ordinal
        ids[here] = indexes[manifest.packs[ordinal]].ids_by_number[locations[here] & UNIT_MASK]
    return ids
