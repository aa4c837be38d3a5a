"""The check of the shortcut. A save is a delta: the parent's manifest, with the written pages and the newest overlays over it.

Every so many saves the whole images are read and hashed on this host as well, and their roots compared with those of the delta's manifest.
What it finds: a parent that is not what lies under the machine, a written unit that one of the two ways left out, an overlay that was taken
for covered. What it cannot find: a page that the kernel did not tell as written and that no earlier save held, for both ways rest on that
account.
"""

import logging
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from django.conf import settings

from checkpoints_app.store import Manifest, SecretKey
from checkpoints_app.store.ids import UNIT_BYTES, Ids, base_unit_id, ids_from_bytes, image_root, type_ids, unit_ids, units_of
from workers.machine.driver import MachineError
from workers.save.memory import Batch

log = logging.getLogger(__name__)

FACT = "saves_since_recheck"  # in a manifest's facts: it goes on over resumes and hosts
CODE = "recheck_failed"

Int64s = npt.NDArray[np.int64]


def is_due(parent: Manifest | None) -> bool:
    """KEEPSTATE_RECHECK_SAVES: every so many saves of a line, 0 for never. A save without a parent rests on no shortcut."""
    every = settings.KEEPSTATE_RECHECK_SAVES
    return parent is not None and every > 0 and saves_since(parent) + 1 >= every


def saves_since(parent: Manifest | None) -> int:
    known = parent.facts.get(FACT) if parent is not None else None
    return known if isinstance(known, int) else 0


def whole_root(id_key: SecretKey, length_bytes: int, base: str | None, pages: Iterable[Batch], *, zero_units: Int64s | None = None) -> str:
    """The root of an image of which `pages` and `zero_units` are all that is neither the base's nor, without one, zero.

    Holds 32 bytes for each unit: 16 MiB for a machine of 2 GiB.
    """
    ids: Ids = np.zeros((units_of(length_bytes), 4), type_ids)
    if base is not None:
        ids[:] = ids_from_bytes(base_unit_id(base))
    if zero_units is not None:
        ids[zero_units] = 0
    for numbers, content in pages:
        rows = np.frombuffer(content, np.uint8).reshape(-1, UNIT_BYTES)
        live = rows.any(axis=1)
        ids[numbers[~live]] = 0
        ids[numbers[live]] = unit_ids(id_key.reveal(), content, (np.flatnonzero(live) * UNIT_BYTES).tolist())
    return image_root(length_bytes, [ids])


def require_equal(checkpoint_id: str, manifest: Manifest, roots: dict[str, str]) -> None:
    """Raises MachineError `recheck_failed` unless the manifest's images have these roots, and says it in the log as an error."""
    wrong = sorted(name for name, root in roots.items() if manifest.images[name].root != root)
    if not wrong:
        log.info("the whole images are what the manifest says", extra={"checkpoint": checkpoint_id, "images": sorted(roots)})
        return
    log.error(
        "A SAVE WOULD HAVE BEEN WRONG: the whole image differs from parent and delta; the next save stores everything anew",
        extra={"checkpoint": checkpoint_id, "images": wrong, "parent": manifest.facts.get("parent")},
    )
    told = f"The {' and '.join(wrong)} of this save, read whole, is not what the parent with the written units gives; nothing was saved"
    raise MachineError(CODE, f"{told}. The next save stores everything anew.")
