"""The sweep that reads everything stored: least recently verified first, within a budget, so that all is read in so many days.

An object is due when two thirds of those days have gone by since it was written or read last, or when a reader missed it. A place that
does not answer ends the run and judges nothing.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from checkpoints_app.models import Manifest, Pack, Sweep
from checkpoints_app.services import heal, sweeps, verify
from checkpoints_app.services.verify import Verdict
from checkpoints_app.states import ManifestState, PackState
from sessions_app.errors import IntegrityFailed
from sessions_app.services.locks import Busy

log = logging.getLogger(__name__)

NAME = "scrub"
_BATCH = 64
_TOLD = 100  # of a kind, that a report names

Progress = Callable[[Sweep], None]


def run(
    *, budget_bytes: int | None = None, seconds: float | None = None, everything: bool = False, progress: Progress | None = None
) -> Sweep:
    """Verify what is due (with `everything`, all), until the budget or the time is used up; at least one object. Returns the run's row.

    Raises Busy if a run goes on already; BackendError if the store does not answer: what was verified until then counts.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    with sweeps.running(NAME) as row:
        row.bytes_wanted = budget_bytes
        row.report = {"bad": [], "corrupted": [], "healed": [], "not_judged": 0}
        for one in _oldest(row, everything=everything):
            _judge(row, one)
            if progress is not None:
                progress(row)
            sweeps.save(row)
            over_budget = budget_bytes is not None and row.bytes_done >= budget_bytes
            if over_budget or (deadline is not None and time.monotonic() > deadline):
                break
        _heal_others(row, deadline)
    row.refresh_from_db()
    return row


def behind() -> bool:
    """Whether something was not read for longer than was promised."""
    late = Q(verified_at__lt=Now() - timedelta(days=settings.KEEPSTATE_SCRUB_DAYS))
    return Pack.objects.filter(late, state__in=[PackState.LIVE, PackState.CORRUPT]).exists() or _manifests().filter(late).exists()


def _manifests() -> "QuerySet[Manifest]":
    return Manifest.objects.exclude(state=ManifestState.CONDEMNED)


def _oldest(row: Sweep, *, everything: bool) -> Iterator[Pack | Manifest]:
    """What was verified longest ago, of what was not verified in this run. Each batch is asked for anew."""
    limit = Q(verified_at__lt=row.started_at) if everything else Q(verified_at__lt=Now() - verify.due())
    seen: set[str] = set()
    while True:
        packs = Pack.objects.filter(limit, state__in=[PackState.LIVE, PackState.CORRUPT]).exclude(id__in=seen).order_by("verified_at", "id")
        manifests = _manifests().filter(limit).exclude(id__in=seen).order_by("verified_at", "id")
        both: list[Pack | Manifest] = [*packs[:_BATCH], *manifests[:_BATCH]]
        if not both:
            return
        for one in sorted(both, key=lambda one: (one.verified_at, one.id))[:_BATCH]:
            seen.add(one.id)
            yield one
        seen = {one for one in seen if _unmoved(one, row)}


def _unmoved(object_id: str, row: Sweep) -> bool:
    """Objects that could not be judged keep their time and would come again and again."""
    stale = Q(id=object_id, verified_at__lt=row.started_at)
    return Pack.objects.filter(stale).exists() or Manifest.objects.filter(stale).exists()


def _judge(row: Sweep, one: Pack | Manifest) -> None:
    try:
        verdict = verify.pack(one) if isinstance(one, Pack) else verify.manifest(one)
    except IntegrityFailed as error:  # the account's key does not open: no word about the object
        log.error("an object cannot be judged", extra={"object_id": one.id, "reason": str(error)})
        row.report["not_judged"] += 1
        return
    row.objects_done += 1
    row.bytes_done += verdict.bytes_read
    _tell(row, one, verdict)
    if not verdict.good and isinstance(one, Pack):
        _heal(row, Pack.objects.filter(id=one.id).first())


def _tell(row: Sweep, one: Pack | Manifest, verdict: Verdict) -> None:
    if not verdict.good:
        log.error("a stored object is bad", extra={"object_id": one.id, "reason": verdict.problem, "checkpoints": verdict.corrupted})
        _report(row, "bad", [verdict.problem])
    _report(row, "corrupted", verdict.corrupted)
    _report(row, "healed", verdict.healed)


def _report(row: Sweep, kind: str, more: Iterable[str]) -> None:
    """The row is written after each object: it names the first ones, and the states of the checkpoints say all."""
    row.report[kind] = [*row.report[kind], *more][:_TOLD]


def _heal_others(row: Sweep, deadline: float | None) -> None:
    """Packs that were bad before this run, one at least: tried when something was saved since they were looked at last."""
    newer = Pack.objects.filter(account_id=OuterRef("account_id"), state=PackState.LIVE, created_at__gt=OuterRef("verified_at"))
    for corrupt in Pack.objects.filter(Exists(newer), state=PackState.CORRUPT).order_by("verified_at", "id")[:_BATCH]:
        _heal(row, corrupt)
        Pack.objects.filter(id=corrupt.id, verified_at=corrupt.verified_at).update(verified_at=Now())
        if deadline is not None and time.monotonic() > deadline:
            return


def _heal(row: Sweep, pack: Pack | None) -> None:
    if pack is None or pack.state != PackState.CORRUPT:
        return
    try:
        if heal.heal(pack):
            _report(row, "healed", _healed(pack))
    except Busy:
        log.info("a bad pack is being erased or rewritten", extra={"pack_id": pack.id})


def _healed(pack: Pack) -> list[str]:
    return [] if Pack.objects.filter(id=pack.id, state=PackState.CORRUPT).exists() else [f"pack {pack.id}"]
