"""One pack brought to what its edges say: gone if nobody needs it, rewritten if it holds units that nobody needs, else left.

Steps, each found again by whoever comes after a death (the row says how far it came):
  decide   under the row's lock, from its edges: condemned, or rewriting with a generation reserved that was never used before
  write    the next generation is made durable (checkpoints_app/store/rewrite.py)
  move     the row goes to it; from now on readers read it
  clear    every other generation is deleted and confirmed gone
  close    the row is live again (corrupt, if a unit that somebody needs could not be read)
A condemned pack: its objects are deleted and confirmed gone, then its row.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from django.db import transaction

from checkpoints_app.models import Pack, PackEdge
from checkpoints_app.services import integrity, key, storage
from checkpoints_app.states import PackState
from checkpoints_app.store import IntegrityError, MissingObjectError
from checkpoints_app.store.backends.backend import Step, no_step
from checkpoints_app.store.bitmap import UnitSet, as_set, decode_units, encode_units, union
from checkpoints_app.store.packs import PackIndex
from checkpoints_app.store.rewrite import RewrittenPack, rewrite_pack
from checkpoints_app.store.scan import read_listing
from sessions_app.services import locks

log = logging.getLogger(__name__)

#: How long one erasure waits for another that is at the same pack; a rewrite takes seconds.
WAIT_SECONDS = 120
_ROUNDS = 16  # each round that is not the last one removed units that were still needed when it began


@dataclass
class Settled:
    """What was done. Bytes as they lay in the store."""

    deleted: bool = False
    rewritten: bool = False
    freed_bytes: int = 0


@dataclass(frozen=True)
class _Decision:
    row: Pack
    live: UnitSet
    action: str  # delete, rewrite, clear or nothing


@dataclass(frozen=True)
class Healing:
    """Content for units that are damaged or lost, by unit number; and what the pack held, where it does not tell that itself."""

    replacements: Mapping[int, bytes] = field(default_factory=dict)
    index: PackIndex | None = None


def live_units(pack: Pack) -> UnitSet:
    """The units that any checkpoint needs."""
    return union(PackEdge.objects.filter(pack_id=pack.id).values_list("units", flat=True), pack.unit_count)


def listed_units(pack: Pack) -> UnitSet:
    """The units that its object names: those with content there, and those that it lists as lost."""
    return decode_units(pack.units, pack.unit_count) | decode_units(pack.bad, pack.unit_count)


def settle(pack_id: str, *, healing: Healing | None = None, step: Step = no_step, wait_seconds: float = WAIT_SECONDS) -> Settled:
    """Prerequisite: outside a transaction. Safe to repeat; harmless for a pack that is as it should be, or gone.

    Raises Busy if another worker is at it, BackendError if the store does not answer; then the row says what is left to do.
    """
    done = Settled()
    with locks.exclusive(f"pack/{pack_id}", wait_seconds):
        for _ in range(_ROUNDS):
            decision = _decide(pack_id, heal=healing is not None and not done.rewritten)
            if decision is None or decision.action == "nothing":
                return done
            step(f"pack_{decision.action}_decided")
            if decision.action == "delete":
                _delete(decision.row, done, step)
            elif decision.action == "rewrite":
                _rewrite(decision, healing or Healing(), done, step)
            else:
                _clear(decision.row, step)
                _close(decision.row)
        raise RuntimeError(f"pack {pack_id} does not come to rest; it stays {PackState.REWRITING}")


def _decide(pack_id: str, *, heal: bool) -> _Decision | None:
    with transaction.atomic():
        row = Pack.objects.select_for_update().filter(id=pack_id).first()
        if row is None:
            return None
        live = live_units(row)
        dead = listed_units(row) & ~live
        if not live.any():
            Pack.objects.filter(id=row.id).update(state=PackState.CONDEMNED)
            return _Decision(row, live, "delete")
        if dead.any() or heal:
            row.reserved_generation += 1
            row.state = PackState.REWRITING
            row.save(update_fields=["state", "reserved_generation"])
            return _Decision(row, live, "rewrite")
        return _Decision(row, live, "clear" if row.state == PackState.REWRITING else "nothing")


def _delete(row: Pack, done: Settled, step: Step) -> None:
    for generation in range(row.cleared_generation, row.reserved_generation + 1):
        storage.delete_pack(row.account_id, row.id, generation)
        step("pack_object_deleted")
    Pack.objects.filter(id=row.id, state=PackState.CONDEMNED).delete()
    step("pack_row_deleted")
    done.deleted, done.freed_bytes = True, done.freed_bytes + row.stored_bytes


def _rewrite(decision: _Decision, healing: Healing, done: Settled, step: Step) -> None:
    row = decision.row
    keys, backend = key.keys_to_read(row.account_id), storage.backend()
    index = healing.index or _best_listing(row)
    if index is None or not (wanted := decision.live & _listed(index, row.unit_count)).any():
        _give_up(decision)
        return
    made = rewrite_pack(backend, keys, row.account_id, index, row.reserved_generation, wanted, replacements=healing.replacements, step=step)
    if _move(row, made, decision.live & ~made.units):
        step("pack_moved")
        done.rewritten, done.freed_bytes = True, done.freed_bytes + max(0, row.stored_bytes - made.stored_bytes)


def _listed(index: PackIndex, unit_count: int) -> UnitSet:
    return as_set(np.concatenate((index.layout.numbers, index.layout.lost)), unit_count)


def _best_listing(row: Pack) -> PackIndex | None:
    """What the pack's object lists; or that of a rewrite which died before the row moved to it, where only that one tells."""
    later = range(row.reserved_generation - 1, row.generation, -1)
    return next((found for generation in (row.generation, *later) if (found := _listing(row, generation)) is not None), None)


def _listing(row: Pack, generation: int) -> PackIndex | None:
    """What that generation lists; None if, looked at twice, it does not tell."""
    keys = key.keys_to_read(row.account_id)
    for _ in range(2):
        try:
            return read_listing(storage.backend(), keys, row.account_id, row.id, generation)
        except (IntegrityError, MissingObjectError) as error:
            storage.require_present(row.account_id)
            log.error("a pack cannot be read", extra={"pack_id": row.id, "reason": str(error)})
    return None


def _move(row: Pack, made: RewrittenPack, lost: UnitSet) -> bool:
    """False if the row is not as it was decided on: the object that was made is cleared away with the others."""
    with transaction.atomic():
        now = Pack.objects.select_for_update().filter(id=row.id, state=PackState.REWRITING, generation=row.generation).first()
        if now is None:
            return False
        Pack.objects.filter(id=row.id).update(
            generation=made.generation,
            units=encode_units(made.units),
            bad=encode_units(lost),
            stored_bytes=made.stored_bytes,
        )
        if lost.any():
            integrity.mark_needing(now, lost, "a unit of it is damaged")
        return True


def _give_up(decision: _Decision) -> None:
    """Nothing in the object can be told apart, so what must go cannot be parted from what must stay: the object goes.

    What stays was lost before; its checkpoints are refused.
    """
    with transaction.atomic():
        row = Pack.objects.select_for_update().filter(id=decision.row.id, state=PackState.REWRITING).first()
        if row is not None:
            Pack.objects.filter(id=row.id).update(units=b"", bad=encode_units(decision.live))
            integrity.mark_needing(row, decision.live, "nothing of it can be read")


def _clear(row: Pack, step: Step) -> None:
    """Delete every generation but the row's own; that one too, where it holds nothing that can be read."""
    empty = not bytes(row.units)
    for generation in range(row.cleared_generation, row.reserved_generation + 1):
        if generation != row.generation or (empty and _listing(row, generation) is None):
            storage.delete_pack(row.account_id, row.id, generation)
            step("pack_object_deleted")


def _close(row: Pack) -> None:
    with transaction.atomic():
        now = Pack.objects.select_for_update().filter(id=row.id, state=PackState.REWRITING, generation=row.generation).first()
        if now is None or now.reserved_generation != row.reserved_generation:
            return
        live = live_units(now)
        bad = decode_units(now.bad, now.unit_count) & live
        if (listed_units(now) & ~live).any() or not live.any():
            return  # more became dead meanwhile: another round
        state = PackState.CORRUPT if bad.any() else PackState.LIVE
        Pack.objects.filter(id=row.id).update(state=state, bad=encode_units(bad), cleared_generation=now.generation)
    integrity.reconsider_holders(row.id)


def state_of(live: UnitSet, listed: UnitSet) -> PackState | None:
    """What the loss of an edge makes of a pack: nothing (None), or the beginning of its end."""
    if not live.any():
        return PackState.CONDEMNED
    return PackState.REWRITING if bool(np.any(listed & ~live)) else None
