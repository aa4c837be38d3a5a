"""All that a process needs to read one image of a checkpoint, as a worker hands it over: through an open file in memory that both have.

It carries keys, so it goes through no command line, no environment and no file with a name. The roots were verified by whoever made it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from checkpoints_app.store.extents import UNIT_BITS, Locations
from checkpoints_app.store.ids import Ids, type_ids
from checkpoints_app.store.keys import AccountKeys, SecretKey
from checkpoints_app.store.packs import Layout, PackIndex
from checkpoints_app.store.seal import Rewriting
from workers.lazy import arrays

MAX_UNITS = 1 << 22  # 16 GiB of an image: what is known per unit then takes 350 MiB in either process while it is read


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    account_id: str
    keys: AccountKeys
    store: Mapping[str, Any]  # where the packs are: workers/lazy/where.py
    packs: tuple[str, ...]  # the table that `locations` counts in
    indexes: Mapping[str, PackIndex]  # of those packs that the image lies in
    length_bytes: int
    locations: Locations  # one per unit of the image
    first: npt.NDArray[np.int64]  # units to be had first, in that order; any may be missing or needless
    told: Mapping[str, Any]  # what else the process is told: names of files, nothing secret


def send(plan: Plan, fd: int) -> None:
    """Write the plan into the file. Raises OSError where there is no memory for it."""
    facts = {
        "account": plan.account_id,
        "keys": [key.reveal().hex() for key in (plan.keys.id_key, plan.keys.pack_key, plan.keys.manifest_key)],
        "store": dict(plan.store),
        "packs": list(plan.packs),
        "indexes": [_facts_of(index) for index in plan.indexes.values()],
        "length": plan.length_bytes,
        "told": dict(plan.told),
    }
    found = list(plan.indexes.values())
    columns = {
        "ids": _joined([index.ids for index in found], np.empty((0, 4), type_ids)),
        "codecs": _joined([index.codecs for index in found], np.empty(0, np.uint8)),
        "first_units": _joined([index.first_units for index in found], np.empty(0, np.int64)),
        "offsets": _joined([index.offsets for index in found], np.empty(0, np.int64)),
        "numbers": _joined([index.layout.numbers for index in found], np.empty(0, np.int64)),
        "lost": _joined([index.layout.lost for index in found], np.empty(0, np.int64)),
        "lost_ids": _joined([index.layout.lost_ids for index in found], np.empty((0, 4), type_ids)),
    }
    arrays.write(fd, facts, {**columns, "locations": plan.locations, "first": plan.first})


def receive(fd: int) -> Plan:
    """Raises OSError, ValueError, KeyError for what is not a plan."""
    facts, found = arrays.read(fd)
    keys = AccountKeys(*(SecretKey(bytes.fromhex(word)) for word in facts["keys"]))
    indexes = dict(_indexes(facts["indexes"], found))
    where = facts["account"], keys, facts["store"], tuple(facts["packs"]), indexes
    return Plan(*where, facts["length"], found["locations"], found["first"], facts["told"])


def secret_file() -> int:
    """An empty file in memory, without a name, for a plan. It is not inherited unless it is passed on."""
    return os.memfd_create("plan", os.MFD_CLOEXEC)


def needed_indexes(packs: tuple[str, ...], locations: Locations, indexes: Mapping[str, PackIndex]) -> dict[str, PackIndex]:
    """Those of the packs that this image lies in."""
    ordinals = np.unique(locations[locations >= 0] >> UNIT_BITS)
    return {packs[number]: indexes[packs[number]] for number in ordinals.tolist()}


def _facts_of(index: PackIndex) -> dict[str, Any]:
    rewriting = index.rewriting and [index.rewriting.generation, index.rewriting.salt.hex()]
    counts = [len(index.ids), len(index.codecs), len(index.layout.lost)]
    return {"id": index.pack_id, "rewriting": rewriting, "counts": counts, "units": index.layout.unit_count}


def _indexes(rows: list[dict[str, Any]], columns: Mapping[str, npt.NDArray[Any]]) -> "list[tuple[str, PackIndex]]":
    at = dict.fromkeys(columns, 0)

    def take(name: str, count: int) -> npt.NDArray[Any]:
        at[name] += count
        return columns[name][at[name] - count : at[name]]

    found = []
    for row in rows:
        units, frames, lost = row["counts"]
        rewriting = Rewriting(row["rewriting"][0], bytes.fromhex(row["rewriting"][1])) if row["rewriting"] else None
        ids: Ids = take("ids", units)
        layout = Layout(row["units"], take("numbers", units), take("lost", lost), take("lost_ids", lost))
        parts = take("codecs", frames), take("first_units", frames + 1), take("offsets", frames + 1)
        found.append((row["id"], PackIndex(row["id"], ids, *parts, rewriting, layout)))
    return found


def _joined(parts: list[npt.NDArray[Any]], empty: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate([empty, *parts])
