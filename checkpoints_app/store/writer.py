"""Saving a checkpoint: new units into packs, packs durable, then the manifest, and nothing else. The caller's commit publishes it."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from . import spill
from .backends.backend import Backend, Step, no_step
from .extents import BASE, ZERO, Int64s, Locations
from .ids import UNIT_BYTES, canonical_json
from .index import UnitIndex
from .keys import AccountKeys
from .manifest import ImageMap, Manifest, check_image, digest_of
from .manifest_codec import MAX_FACTS_BYTES, empty_locations
from .manifest_writer import Contents, write_manifest
from .names import account_prefix
from .packer import Packer
from .pages import Pages, slices
from .placement import PackTable, Placement
from .plan import PublishedPlan
from .roots import Gather

STEPS = (  # in this order; those of one pack may mingle with another's
    *("pack_verified", "packs.object_staged", "pack_written"),  # once per pack
    *("packs_written", "packs.objects_synced", "packs.object_named", "packs.objects_durable", "packs_durable"),
    *("manifest_verified", "manifest.object_staged", "manifest.objects_synced", "manifest.object_named"),
    *("manifest.objects_durable", "manifest_durable"),
)


class CheckpointWriter:
    """One save. Call `add_image` for each image of the checkpoint, then `finish`; use it as a context manager, or `abort` what fails.

    `parent` is the checkpoint that the images are given against, or None. `index` is what content is looked up in: it holds at least the
    parent's packs (`load_index`), is only read, and is not used by another thread meanwhile. Nothing of a save that fails enters it.
    `step` is told the names in STEPS as they are done.

    Memory: 48 MiB of buffers, up to 32 MiB of stored form, the caller's batch, and about 50 MiB of tables; what these need beyond
    that (8 bytes per unit of the images, 48 per new one) lies in temporary files (spill.py).
    """

    def __init__(
        self,
        backend: Backend,
        keys: AccountKeys,
        account_id: str,
        parent: Manifest | None,
        index: UnitIndex,
        *,
        step: Step = no_step,
        threads: int = 2,
    ) -> None:
        account_prefix(account_id)
        if parent and (index.spans_of(parent.referenced_packs)[0] < 0).any():
            raise ValueError("the index lacks packs of the parent: load_index first")
        self._backend, self._keys, self._account_id, self._step = backend, keys, account_id, step
        self._parent, self._index = parent, index
        self._table = PackTable(parent)
        self._batch = backend.batch(lambda name: step(f"packs.{name}"))
        self._packer = Packer(keys, account_id, self._batch, self._table.ordinal, step=step, threads=threads)
        self._placement = Placement(keys.id_key, parent, index, self._packer, self._table)
        self._images: dict[str, tuple[int, str | None, Locations]] = {}
        self._written_units = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def add_image(
        self,
        name: str,
        length_bytes: int,
        base: str | None,
        pages: Pages,
        *,
        whole: bool = False,
        base_units: Int64s | None = None,
        zero_units: Int64s | None = None,
    ) -> None:
        """One image: the parent's of that name with these units replaced, or, if `whole` or without a parent's, these units alone.

        `pages` yields (unit numbers ascending, their bytes) in batches that the caller bounds; bytes are not changed until the next
        is asked for. `base_units` become equal to the base's, `zero_units` zero, before `pages` apply. Units never mentioned are the
        parent's, or else the base's (zero without one). ValueError for an image that contradicts this, or whose length or base is not
        the parent's although it is not `whole`. After any error the writer is good for `abort` only.
        """
        units = check_image(name, length_bytes, base)
        if name in self._images:
            raise ValueError(f"{name} was added already")
        before = self._before(name, length_bytes, base, whole=whole)
        locations = empty_locations(units, base) if before is None or whole else spill.copy(before)
        if base_units is not None:
            if base is None:
                raise ValueError("units cannot equal the base's where there is no base")
            locations[_checked(base_units, units)] = BASE
        if zero_units is not None:
            locations[_checked(zero_units, units)] = ZERO
        for numbers, content in slices(pages, length_bytes, units):
            locations[numbers] = self._placement.place(_at(before, numbers), content)
            spill.release(locations)
            self._written_units += len(numbers)
        self._images[name] = (length_bytes, base, locations)

    def finish(self, facts: Mapping[str, Any], *, standalone: bool = False) -> PublishedPlan:
        """Make packs, then the manifest, durable. `facts` are kept in it: JSON, at most 64 KiB, with "pin" and "watermarks".

        `standalone`: the manifest builds on no other, so that the parent's may be deleted (a fork's first save).
        On success every object of the checkpoint survives a power loss, but nothing is published: that is the caller's commit. On failure
        (StoreError, ValueError) no manifest of this save is readable, or one that is whole; packs may exist that nothing refers to.
        """
        if len(canonical_json(dict(facts))) > MAX_FACTS_BYTES:
            raise ValueError(f"the facts of a checkpoint have at most {MAX_FACTS_BYTES} bytes as JSON")
        digest_of(facts, {})
        try:
            new_packs = self._packer.finish()
            self._step("packs_written")
            if new_packs:
                self._batch.publish()
                self._step("packs_durable")
            contents = Contents(facts, self._table.packs, self._image_maps())
            parent = None if standalone else self._parent
            manifest, size = write_manifest(self._backend, self._keys, self._account_id, contents, parent, self._step)
        finally:
            self.abort()
        return PublishedPlan(
            manifest=manifest,
            packs=manifest.referenced_packs,
            new_packs=new_packs,
            logical_bytes=manifest.logical_bytes,
            written_bytes=self._written_units * UNIT_BYTES,
            unique_bytes=sum(pack.plain_bytes for pack in new_packs),
            stored_bytes=size + sum(pack.stored_bytes for pack in new_packs),
            manifest_bytes=size,
            new_units=self._packer.index,
        )

    def _image_maps(self) -> dict[str, ImageMap]:
        gather = Gather(self._table.packs, [self._index, self._packer.index])
        return {
            name: ImageMap(length, base, gather.root(length, base, locations), locations)
            for name, (length, base, locations) in self._images.items()
        }

    def abort(self) -> None:
        """Drop what is not durable yet. Idempotent; harmless after `finish`."""
        self._packer.abort()
        self._batch.discard()

    def _before(self, name: str, length_bytes: int, base: str | None, *, whole: bool) -> Locations | None:
        image = self._parent.images.get(name) if self._parent else None
        if image is None or (image.length_bytes, image.base) == (length_bytes, base):
            return image.locations if image else None
        if not whole:
            raise ValueError(f"{name} has another length or base than the parent's: give it whole")
        return None


def _at(before: Locations | None, numbers: Int64s) -> Locations:
    if before is None:
        return np.full(len(numbers), ZERO, np.int64)
    old: Locations = before[numbers]
    spill.release(before)
    return old


def _checked(numbers: Int64s, units: int) -> Int64s:
    numbers = np.asarray(numbers, np.int64)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= units):
        raise ValueError("unit numbers must lie in the image")
    return numbers
