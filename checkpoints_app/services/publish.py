"""Publication: the one commit that makes a checkpoint exist.

Prerequisites: every pack and the manifest are durable. The commit checks the fencing token and the session's epoch, records packs and
edges, publishes the row, moves the session's head and tells the history. Before it the previous checkpoint is the newest; after it this
one is; there is no moment between.

Beside erasure: every pack and manifest that is relied on is held FOR SHARE and compared with what the save's dedup index was built from;
erasure holds FOR UPDATE and reads the edges again. Neither can pass the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import F, Subquery
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint, Manifest, ManifestEdge, Pack, PackEdge
from checkpoints_app.services.relied import PacksMoved, PackVersion, version_of
from checkpoints_app.states import CheckpointState, ManifestState, PackState
from checkpoints_app.store import Manifest as StoredManifest
from checkpoints_app.store import PublishedPlan
from checkpoints_app.store.bitmap import all_units, encode_units
from sessions_app.models import Session
from sessions_app.services import event, retention
from sessions_app.services import stored as usage_of_store
from sessions_app.services.lease import Lease, LeaseLost


@dataclass(frozen=True)
class StoredPack:
    id: str
    stored_bytes: int
    unit_count: int


@dataclass(frozen=True)
class Stored:
    """What the store holds of a capture, all of it durable. Sizes in bytes."""

    manifest_id: str
    content_digest: str
    memory_root: str
    disk_root: str  # "" for a machine without a disk
    logical_bytes: int
    unique_bytes: int
    stored_bytes: int
    manifest_bytes: int
    ancestors: list[str]  # manifests that this one builds on
    new_packs: list[StoredPack]
    needed_units: Mapping[str, bytes]  # of every pack that is needed (checkpoints_app/store/bitmap.py)
    relied_on: Mapping[str, PackVersion] = field(default_factory=dict)  # packs as they were; a pack not named here was live and new


_AS_MADE = PackVersion(PackState.LIVE, 0, b"")


def stored_of(plan: PublishedPlan, relied_on: Mapping[str, PackVersion]) -> Stored:
    """What a save has made, ready to be published. `relied_on` is of the index that it looked content up in."""
    images = plan.manifest.images
    return Stored(
        manifest_id=plan.manifest.manifest_id,
        content_digest=plan.manifest.digest,
        memory_root=images["memory"].root,
        disk_root=images["disk"].root if "disk" in images else "",
        logical_bytes=plan.logical_bytes,
        unique_bytes=plan.unique_bytes,
        stored_bytes=plan.stored_bytes,
        manifest_bytes=plan.manifest_bytes,
        ancestors=list(plan.manifest.ancestors),
        new_packs=[StoredPack(pack.pack_id, pack.stored_bytes, pack.unit_count) for pack in plan.new_packs],
        needed_units=encoded_needs(plan.manifest),
        relied_on=relied_on,
    )


def encoded_needs(manifest: StoredManifest) -> dict[str, bytes]:
    """Of every pack that the checkpoint needs, its units, as edges keep them."""
    return {pack_id: encode_units(units) for pack_id, units in manifest.needed_units()}


def publish(checkpoint: Checkpoint, stored: Stored, lease: Lease, *, source: str) -> None:
    """Prerequisite: inside a transaction that has fenced the lease.

    Raises PacksMoved before anything is written; LeaseLost if the row is not this token's any more.
    """
    _hold(checkpoint, stored)
    _record(checkpoint, stored)
    published = Checkpoint.objects.filter(id=checkpoint.id, state=CheckpointState.UPLOADING, lease_token=lease.token).update(
        state=CheckpointState.PUBLISHED,
        published_at=Now(),
        manifest_id=stored.manifest_id,
        content_digest=stored.content_digest,
        memory_root=stored.memory_root,
        disk_root=stored.disk_root,
        logical_bytes=stored.logical_bytes,
        unique_bytes=stored.unique_bytes,
        stored_bytes=stored.stored_bytes,
    )
    moved = Session.objects.filter(id=checkpoint.session_id, epoch=checkpoint.source_epoch).update(
        head_checkpoint_id=checkpoint.id,
        head_checkpoint_at=Subquery(Checkpoint.objects.filter(id=checkpoint.id).values("published_at")),
        pin_digest=checkpoint.pin_id,
        revision=F("revision") + 1,
    )
    if not (published and moved):
        raise LeaseLost(lease.operation_id)
    event.append(
        checkpoint.session_id,
        "checkpoint.published",
        {"stored_bytes": stored.stored_bytes, "content_digest": stored.content_digest},
        source=source,
        subject=("checkpoint", checkpoint.id),
    )
    retention.mark_due(checkpoint.session_id)
    usage_of_store.added(checkpoint.account_id, stored.stored_bytes)


def _hold(checkpoint: Checkpoint, stored: Stored) -> None:
    """FOR SHARE on all that is relied on, in the order in which erasure locks: packs by id, then manifests."""
    relied = sorted(set(stored.needed_units) - {pack.id for pack in stored.new_packs})
    rows = Pack.objects.raw(
        "SELECT * FROM checkpoints_app_pack WHERE id = ANY(%s) AND account_id = %s ORDER BY id FOR SHARE", [relied, checkpoint.account_id]
    )
    now = {row.id: version_of(row) for row in rows}
    moved = [pack_id for pack_id in relied if now.get(pack_id) != stored.relied_on.get(pack_id, _AS_MADE)]
    manifests = Manifest.objects.raw(
        "SELECT * FROM checkpoints_app_manifest WHERE id = ANY(%s) AND account_id = %s AND state = %s ORDER BY id FOR SHARE",
        [sorted(stored.ancestors), checkpoint.account_id, ManifestState.LIVE.value],
    )
    gone = set(stored.ancestors) - {row.id for row in manifests}
    if moved or gone:
        raise PacksMoved(f"{len(moved)} packs and {len(gone)} manifests that this checkpoint relies on have moved")


def _record(checkpoint: Checkpoint, stored: Stored) -> None:
    """Rows for what is new, and an edge to each pack and manifest that is needed."""
    account_id = checkpoint.account_id
    Pack.objects.bulk_create(
        [
            Pack(
                id=pack.id,
                account_id=account_id,
                stored_bytes=pack.stored_bytes,
                unit_count=pack.unit_count,
                units=encode_units(all_units(pack.unit_count)),
            )
            for pack in stored.new_packs
        ]
    )
    edges = [PackEdge(checkpoint_id=checkpoint.id, pack_id=pack, units=units) for pack, units in sorted(stored.needed_units.items())]
    PackEdge.objects.bulk_create(edges)
    own = Manifest(id=stored.manifest_id, account_id=account_id, stored_bytes=stored.manifest_bytes)
    Manifest.objects.bulk_create([own], ignore_conflicts=True)
    line = [stored.manifest_id, *stored.ancestors]
    ManifestEdge.objects.bulk_create([ManifestEdge(checkpoint_id=checkpoint.id, manifest_id=one) for one in line])
