"""The next generation of a pack: the units that are still needed, under their old numbers, and nothing of the others."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .backends.backend import Backend, Step, no_step
from .bitmap import UnitSet, as_set
from .extents import Int64s
from .ids import UNIT_BYTES, Ids, unit_ids
from .keys import AccountKeys
from .names import object_key
from .packs import Layout, PackIndex, encode_pack, opener_of, verify_encoded
from .scan import read_good_units
from .seal import Kind, Sealer

REWRITE_STEPS = ("rewrite_verified", "rewrite_durable")


@dataclass(frozen=True, eq=False)
class RewrittenPack:
    """A durable object that holds what was asked for. `lost` are the units that were needed and could not be had."""

    generation: int
    units: UnitSet
    lost: UnitSet
    stored_bytes: int


def rewrite_pack(
    backend: Backend,
    keys: AccountKeys,
    account_id: str,
    index: PackIndex,
    generation: int,
    live: UnitSet,
    *,
    replacements: Mapping[int, bytes] | None = None,
    step: Step = no_step,
) -> RewrittenPack:
    """Write the pack whose present form is `index` as that generation, with its live units alone.

    A live unit that is damaged is taken from `replacements` (by unit number; 4096 bytes whose id is the unit's), or else kept as lost: its
    id without its content. What was encoded is decoded and hashed again before it is put. The present object is not touched.
    ObjectExistsError if that generation was written before: take another. ValueError for a generation that is not later, or for
    a set of units that names one which the pack never had. Memory: twice the live units.
    """
    if generation <= index.generation or len(live) != index.layout.unit_count or not live.any():
        raise ValueError("a pack is rewritten to a later generation, with some of its own units")
    wanted = np.flatnonzero(live)
    ids = index.listed_ids(wanted)
    if not ids.any(axis=1).all():
        raise ValueError("a unit is asked for that this pack does not have any more")
    content, good = read_good_units(backend, keys, account_id, index, wanted)
    _heal(keys, content, good, wanted, ids, replacements or {})
    layout = Layout(index.layout.unit_count, wanted[good], wanted[~good], ids[~good])
    sealer = Sealer.of_generation(keys, account_id, index.pack_id, generation)
    encoded = encode_pack(sealer, np.ascontiguousarray(content[good]).reshape(-1).data, ids[good], layout)
    verify_encoded(opener_of(keys, account_id, encoded.index), keys.id_key.reveal(), encoded)
    step("rewrite_verified")
    stored = backend.put_if_absent(object_key(account_id, Kind.PACK, index.pack_id, generation), encoded.chunks)
    step("rewrite_durable")
    return RewrittenPack(generation, as_set(layout.numbers, len(live)), as_set(layout.lost, len(live)), stored)


def _heal(
    keys: AccountKeys,
    content: npt.NDArray[np.uint8],
    good: npt.NDArray[np.bool_],
    wanted: Int64s,
    ids: Ids,
    replacements: Mapping[int, bytes],
) -> None:
    """Put replacement content where a unit is not good; what is not the content that the id says is not taken."""
    for at in np.flatnonzero(~good).tolist():
        offered = replacements.get(int(wanted[at]))
        if offered is None or len(offered) != UNIT_BYTES:
            continue
        if np.array_equal(unit_ids(keys.id_key.reveal(), memoryview(offered), [0])[0], ids[at]):
            content[at] = np.frombuffer(offered, np.uint8)
            good[at] = True
