"""One pack or manifest read whole and judged: what is bad in it is recorded, and exactly the checkpoints that need it are marked.

A place that does not answer judges nothing. What looks bad is read a second time before it counts.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint, Manifest, ManifestEdge, Pack, PackEdge
from checkpoints_app.services import checkpoint as checkpoints
from checkpoints_app.services import integrity, key, storage
from checkpoints_app.services import pack as packs
from checkpoints_app.states import CheckpointState, ManifestState, PackState
from checkpoints_app.store import IntegrityError, MissingObjectError, StoreError, load_manifest
from checkpoints_app.store.bitmap import UnitSet, decode_units, encode_units
from checkpoints_app.store.names import parse_key
from checkpoints_app.store.scan import Scan, scan_pack

_JUDGED = (PackState.LIVE, PackState.CORRUPT)


@dataclass(frozen=True)
class Verdict:
    bytes_read: int
    good: bool
    problem: str = ""
    corrupted: tuple[str, ...] = ()  # checkpoints that this look marked
    healed: tuple[str, ...] = ()  # and those that are published again


def pack(row: Pack) -> Verdict:
    """Read the pack; BackendError if the store does not answer, and then nothing was recorded."""
    found = _scan(row)
    read = found.bytes_read
    if not found.whole:
        storage.require_present(row.account_id)
        found = _scan(row)
        read += found.bytes_read
    with transaction.atomic():
        now = Pack.objects.select_for_update().filter(id=row.id, generation=row.generation, state__in=_JUDGED).first()
        if now is None:  # it moved on or is being erased: whoever does that reads it too
            return Verdict(read, good=True)
        bad = _bad_units(now, found)
        state = PackState.CORRUPT if bad.any() else PackState.LIVE
        Pack.objects.filter(id=row.id).update(state=state, bad=encode_units(bad), verified_at=Now())
        corrupted = integrity.mark_needing(now, bad, found.problem or "a unit of it was lost") if bad.any() else []
    problem = found.problem or ("units of it were lost" if bad.any() else "")
    return Verdict(read, not problem, problem, tuple(corrupted), tuple(_reconsidered(row)))


def _scan(row: Pack) -> Scan:
    keys = key.keys_to_read(row.account_id)
    return scan_pack(storage.backend(), keys, row.account_id, row.id, row.generation, row.unit_count)


def _bad_units(row: Pack, found: Scan) -> UnitSet:
    """Of the units that somebody needs, those that a restore would not get. An object of a wrong size is refused whole by every reader."""
    live = packs.live_units(row)
    there = decode_units(row.units, row.unit_count)
    return live & ~(there & found.good) if found.readable else live


def _reconsidered(row: Pack) -> list[str]:
    doubtful = PackEdge.objects.filter(pack_id=row.id, checkpoint__state=CheckpointState.CORRUPT)
    return integrity.reconsider(doubtful.values_list("checkpoint_id", flat=True))


def manifest(row: Manifest) -> Verdict:
    """Read it with those it builds on. It is bad where its line cannot be read: then no checkpoint that needs it can be restored."""
    problem = _manifest_problem(row)
    if problem:
        storage.require_present(row.account_id)
        problem = _manifest_problem(row)
    with transaction.atomic():
        now = Manifest.objects.select_for_update().filter(id=row.id).exclude(state=ManifestState.CONDEMNED).first()
        if now is None:
            return Verdict(row.stored_bytes, good=True)
        state = ManifestState.CORRUPT if problem else ManifestState.LIVE
        Manifest.objects.filter(id=row.id).update(state=state, verified_at=Now())
        corrupted = integrity.mark_manifest(now, problem) if problem else []
    healed: list[str] = []
    if not problem:
        doubtful = ManifestEdge.objects.filter(manifest_id=row.id, checkpoint__state=CheckpointState.CORRUPT)
        healed = integrity.reconsider(doubtful.values_list("checkpoint_id", flat=True))
    return Verdict(row.stored_bytes, not problem, problem, tuple(corrupted), tuple(healed))


def _manifest_problem(row: Manifest) -> str:
    keys = key.keys_to_read(row.account_id)
    try:
        load_manifest(storage.backend(), keys, row.account_id, row.id)
    except (IntegrityError, MissingObjectError) as error:
        return str(error)
    return ""


def refused(checkpoint: Checkpoint, error: BaseException, *, source: str) -> None:
    """A reader refused the checkpoint: mark it, and judge the object that the error names, so that no save relies on it either.

    An object that was not there condemns nothing here: it may be on its way back. The scrub looks at it next.
    """
    word, object_id = _named_by(error)
    if isinstance(error, MissingObjectError):
        look_soon(word, object_id)
        return
    checkpoints.mark_corrupt(checkpoint, str(error), source=source)
    try:
        if word == "pack":
            for found in Pack.objects.filter(id=object_id, account_id=checkpoint.account_id, state__in=_JUDGED):
                pack(found)
        elif word == "manifest":
            for one in Manifest.objects.filter(id=object_id, account_id=checkpoint.account_id):
                manifest(one)
    except StoreError:  # the mark stands; the sweep judges the object later
        return


def look_soon(word: str, object_id: str) -> None:
    """Have the sweep verify the pack or manifest of that id next: it is due then, and not late."""
    at_latest = Now() - due()
    if word == "pack":
        Pack.objects.filter(id=object_id, verified_at__gt=at_latest).update(verified_at=at_latest)
    elif word == "manifest":
        Manifest.objects.filter(id=object_id, verified_at__gt=at_latest).update(verified_at=at_latest)


def due() -> timedelta:
    """What was verified longer ago is to be verified again. The last third of the promised days is for bursts, and for a service that was
    down.
    """
    return timedelta(days=settings.KEEPSTATE_SCRUB_DAYS) * 2 / 3


def _named_by(error: BaseException) -> tuple[str, str]:
    if isinstance(error, IntegrityError):
        return error.kind, error.object_id
    name = parse_key(error.key) if isinstance(error, MissingObjectError) else None
    return (name.word, name.object_id) if name else ("", "")
