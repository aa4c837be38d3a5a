"""Erasure of what a deleted session alone held: drop its edges, then every pack that no edge holds.

Order: one commit drops the edges and condemns, under their row locks, the packs that are then held by nobody; each condemned pack's
object is deleted and confirmed gone, and its row removed last. A crash leaves condemned rows, which the next call finishes. What this
does not do yet: rewrite a pack that another session still needs in part.
"""

from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef

from checkpoints_app.models import Checkpoint, Pack, PackEdge
from checkpoints_app.services import storage
from checkpoints_app.states import CheckpointState, PackState
from sessions_app.models import Session


def erase_session(session: Session) -> dict[str, Any]:
    """Safe to repeat. Returns {"state", "packs", "stored_bytes", "packs_shared"} of this call."""
    with transaction.atomic():
        shared = _drop_edges(session)
    packs = list(Pack.objects.filter(account_id=session.account_id, state=PackState.CONDEMNED).order_by("id"))
    for pack in packs:
        storage.delete_pack(pack.account_id, pack.id)
        Pack.objects.filter(id=pack.id, state=PackState.CONDEMNED).delete()
    erasing = Checkpoint.objects.filter(session=session, state=CheckpointState.ERASING)
    for manifest_id in erasing.exclude(manifest_id="").values_list("manifest_id", flat=True):
        storage.delete_manifest(session.account_id, manifest_id)
    erasing.update(state=CheckpointState.ERASED)
    return {"state": "done", "packs": len(packs), "stored_bytes": sum(pack.stored_bytes for pack in packs), "packs_shared": shared}


def _drop_edges(session: Session) -> int:
    """How many packs of this session others still hold.

    A publish that relies on a pack has it FOR SHARE, so it is waited for, and its edge seen.
    """
    checkpoints = Checkpoint.objects.filter(session=session)
    checkpoints.exclude(state=CheckpointState.ERASED).update(state=CheckpointState.ERASING)
    edges = PackEdge.objects.filter(checkpoint__in=checkpoints)
    candidates = sorted(set(edges.values_list("pack_id", flat=True)))
    edges.delete()
    list(Pack.objects.select_for_update().filter(id__in=candidates).order_by("id"))
    held = Exists(PackEdge.objects.filter(pack=OuterRef("pk")))
    condemned = Pack.objects.filter(~held, id__in=candidates).update(state=PackState.CONDEMNED)
    return len(candidates) - condemned
