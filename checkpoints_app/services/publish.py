"""Publication: the one commit that makes a checkpoint exist.

Prerequisites: every pack and the manifest are durable. The commit checks the fencing token and the session's epoch, records packs and
edges, publishes the row, moves the session's head and tells the history. Before it the previous checkpoint is the newest; after it this
one is; there is no moment between.
"""

from dataclasses import dataclass

from django.db.models import F, Subquery
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint, Pack, PackEdge
from checkpoints_app.states import CheckpointState, PackState
from sessions_app.models import Session
from sessions_app.services import event
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
    new_packs: list[StoredPack]
    referenced_packs: list[str]


def publish(checkpoint: Checkpoint, stored: Stored, lease: Lease, *, source: str) -> None:
    """Prerequisite: inside a transaction that has fenced the lease. Raises LeaseLost if the row is not this token's any more."""
    _hold_packs(checkpoint, stored)
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


def _hold_packs(checkpoint: Checkpoint, stored: Stored) -> None:
    """Rows for the new packs, an edge to each pack that is needed. FOR SHARE: erasure takes FOR UPDATE, so neither can pass the other."""
    Pack.objects.bulk_create(
        [
            Pack(id=pack.id, account_id=checkpoint.account_id, stored_bytes=pack.stored_bytes, unit_count=pack.unit_count)
            for pack in stored.new_packs
        ]
    )
    needed = sorted(stored.referenced_packs)
    live = set(
        Pack.objects.raw(
            "SELECT id FROM checkpoints_app_pack WHERE id = ANY(%s) AND account_id = %s AND state = %s ORDER BY id FOR SHARE",
            [needed, checkpoint.account_id, PackState.LIVE.value],
        )
    )
    gone = set(needed) - {pack.id for pack in live}
    if gone:
        raise RuntimeError(f"{len(gone)} packs that this checkpoint relies on are not live; it is not published")
    PackEdge.objects.bulk_create([PackEdge(checkpoint_id=checkpoint.id, pack_id=pack) for pack in needed])
