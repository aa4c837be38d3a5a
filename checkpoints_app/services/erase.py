"""Exact erasure: what only the erased checkpoints held is gone from the store when this returns, and what others need is untouched.

Order, each step found half done by the next call:
  mark        the checkpoints are `erasing`: refused by restores, and a save of theirs cannot be published any more
  drop        batch by batch, under the packs' row locks: their edges go, and each pack becomes condemned or rewriting, as the others say
  settle      pack by pack (services/pack.py): objects deleted and confirmed gone, or the next generation written without the dead units
  manifests   edges dropped; a manifest that nobody needs is deleted and confirmed gone, its row last. One that a descendant still needs
              stays, with a mark in the store that its checkpoint was erased
  close       the checkpoints are `erased`, and what was said of them with them
"""

from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from checkpoints_app.models import Checkpoint, Manifest, ManifestEdge, Pack, PackEdge
from checkpoints_app.services import pack as packs
from checkpoints_app.services import storage
from checkpoints_app.states import PACK_UNSETTLED, CheckpointState, ManifestState, PackState
from checkpoints_app.store import ObjectExistsError
from checkpoints_app.store.backends.backend import Step, no_step
from checkpoints_app.store.bitmap import union
from checkpoints_app.store.names import erased_mark_key
from sessions_app.models import Session
from sessions_app.services import stored

_BATCH = 200  # packs that one commit locks
#: What was said of a checkpoint goes with it.
_UNTOLD: dict[str, Any] = {"reason": "", "name": "", "hold_reason": "", "failure": None}


def erase_session(session: Session, *, step: Step = no_step) -> dict[str, Any]:
    """All checkpoints of the session. Safe to repeat, also beside another erasure; after BackendError or Busy it is to be repeated.

    Returns of this call {"state", "packs" deleted, "packs_rewritten", "packs_shared" that others still need, "stored_bytes" freed}.
    """
    return _erase(session.account_id, Checkpoint.objects.filter(session=session), step)


def erase_checkpoint(checkpoint: Checkpoint, *, step: Step = no_step) -> dict[str, Any]:
    """One checkpoint. The session's head becomes its newest other one. As `erase_session` besides."""
    return _erase(checkpoint.account_id, Checkpoint.objects.filter(id=checkpoint.id), step)


def finish(account_id: str, *, step: Step = no_step, limit: int | None = None, wait_seconds: float = packs.WAIT_SECONDS) -> dict[str, int]:
    """Finish whatever erasures of the account have begun on packs (so many at most) and manifests. Safe at any time."""
    deleted = rewritten = freed = 0
    unsettled = Pack.objects.filter(account_id=account_id, state__in=PACK_UNSETTLED).order_by("id")
    for pack_id in unsettled.values_list("id", flat=True)[:limit]:
        done = packs.settle(pack_id, step=step, wait_seconds=wait_seconds)
        deleted, rewritten, freed = deleted + done.deleted, rewritten + done.rewritten, freed + done.freed_bytes
    for manifest in Manifest.objects.filter(account_id=account_id, state=ManifestState.CONDEMNED).order_by("id"):
        _delete_manifest(manifest, step)
        freed += manifest.stored_bytes
    stored.changed(account_id)
    return {"packs": deleted, "packs_rewritten": rewritten, "stored_bytes": freed}


def _erase(account_id: str, scope: "QuerySet[Checkpoint]", step: Step) -> dict[str, Any]:
    if any(model.objects.filter(account_id=account_id).exists() for model in (Pack, Manifest)):
        storage.require_present(account_id)  # or everything would be found gone in a store that is not mounted
    mark(scope)
    step("marked")
    erasing = scope.filter(state=CheckpointState.ERASING)
    touched = _drop_pack_edges(erasing, step)
    _drop_manifest_edges(account_id, erasing, step)
    done = finish(account_id, step=step)
    erasing.update(state=CheckpointState.ERASED, **_UNTOLD)
    step("closed")
    shared = Pack.objects.filter(id__in=touched).count()
    return {"state": "done", **done, "packs_shared": shared}


def mark(scope: "QuerySet[Checkpoint]") -> None:
    """From here on they are gone for whoever would use them; a session whose head is one of them has its newest other one as its head.

    A commit of its own, or of whoever decides it: a publication that holds packs waits for no lock of ours, and finds its row taken.

    Locks as every service takes them: checkpoints by id, then sessions by id; neither of a strength that the key of a new row waits for.
    """
    with transaction.atomic():
        left = scope.exclude(state=CheckpointState.ERASED).select_for_update(no_key=True).order_by("id")
        chosen = dict(left.values_list("id", "session_id"))
        Checkpoint.objects.filter(id__in=chosen).update(state=CheckpointState.ERASING)
        heads = Session.objects.filter(id__in=set(chosen.values()), head_checkpoint_id__in=chosen)  # a head is of its own session
        for session in heads.select_for_update(no_key=True).order_by("id"):
            newest = session.checkpoints.filter(state=CheckpointState.PUBLISHED).order_by("-created_at", "-id").first()
            Session.objects.filter(id=session.id).update(
                head_checkpoint_id=newest.id if newest else "", head_checkpoint_at=newest.published_at if newest else None
            )


def _drop_pack_edges(erasing: "QuerySet[Checkpoint]", step: Step) -> set[str]:
    """Returns the packs that lost an edge. A publication that relies on one holds it FOR SHARE, so it is waited for and its edge seen."""
    touched: set[str] = set()
    while True:
        edges = PackEdge.objects.filter(checkpoint__in=erasing)
        batch = list(edges.order_by("pack_id").values_list("pack_id", flat=True).distinct()[:_BATCH])
        if not batch:
            return touched
        with transaction.atomic():
            rows = list(Pack.objects.select_for_update().filter(id__in=batch).order_by("id"))
            edges.filter(pack_id__in=batch).delete()
            _restate(rows)
        step("pack_edges_dropped")
        touched.update(batch)


def _restate(rows: list[Pack]) -> None:
    """What the edges that are left make of each pack. Prerequisite: the rows are locked."""
    left: dict[str, list[bytes | memoryview]] = {row.id: [] for row in rows}
    for pack_id, units in PackEdge.objects.filter(pack_id__in=left).values_list("pack_id", "units"):
        left[pack_id].append(units)
    becoming: dict[PackState, list[str]] = {}
    for row in rows:
        state = packs.state_of(union(left[row.id], row.unit_count), packs.listed_units(row))
        if state is not None and row.state != PackState.CONDEMNED:
            becoming.setdefault(state, []).append(row.id)
    for state, ids in becoming.items():
        Pack.objects.filter(id__in=ids).update(state=state)


def _drop_manifest_edges(account_id: str, erasing: "QuerySet[Checkpoint]", step: Step) -> None:
    own = {row.manifest_id for row in erasing if row.manifest_id}
    own -= {row.manifest_id for row in _sharing(own)}
    candidates = sorted(set(ManifestEdge.objects.filter(checkpoint__in=erasing).values_list("manifest_id", flat=True)))
    with transaction.atomic():
        list(Manifest.objects.select_for_update().filter(id__in=candidates).order_by("id"))
        ManifestEdge.objects.filter(checkpoint__in=erasing).delete()
        held = Exists(ManifestEdge.objects.filter(manifest=OuterRef("pk")))
        Manifest.objects.filter(~held, id__in=candidates).update(state=ManifestState.CONDEMNED)
    step("manifest_edges_dropped")
    for manifest_id in sorted(Manifest.objects.filter(id__in=own).exclude(state=ManifestState.CONDEMNED).values_list("id", flat=True)):
        _put_mark(account_id, manifest_id)
        step("erased_mark_put")


def _sharing(manifest_ids: set[str]) -> "QuerySet[Checkpoint]":
    """Checkpoints that are not to be erased and whose own manifest is one of these: forks of what is erased, or what was forked."""
    kept = Checkpoint.objects.exclude(state__in=(CheckpointState.ERASING, CheckpointState.ERASED))
    return kept.filter(manifest_edges__manifest_id__in=manifest_ids, manifest_id__in=manifest_ids).distinct()


def _put_mark(account_id: str, manifest_id: str) -> None:
    try:
        storage.backend().put_if_absent(erased_mark_key(account_id, manifest_id), [b""])
    except ObjectExistsError:
        return


def _delete_manifest(manifest: Manifest, step: Step) -> None:
    storage.delete_manifest(manifest.account_id, manifest.id)
    step("manifest_object_deleted")
    storage.delete_object(erased_mark_key(manifest.account_id, manifest.id))
    Manifest.objects.filter(id=manifest.id, state=ManifestState.CONDEMNED).delete()
    step("manifest_row_deleted")


def unfinished_accounts() -> list[str]:
    """Accounts of which an erasure has begun something that is not done."""
    of_packs = Pack.objects.filter(state__in=PACK_UNSETTLED).values_list("account_id", flat=True)
    of_manifests = Manifest.objects.filter(state=ManifestState.CONDEMNED).values_list("account_id", flat=True)
    return sorted({*of_packs, *of_manifests})
