"""A fork's share of a checkpoint: each child holds the same content by edges of its own, so that nobody's deletion touches another's."""

from collections.abc import Sequence

from django.db import connection
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint, Manifest, Pack
from checkpoints_app.services.checkpoint import restorable
from checkpoints_app.states import CheckpointState
from sessions_app.models import Session

#: A checkpoint at which a session began as another one's child: its memory still bears the other's identity.
BOUNDARY = "fork"

_COPY_PACK_EDGES = """
INSERT INTO checkpoints_app_packedge (checkpoint_id, pack_id, units)
SELECT made.id, edge.pack_id, edge.units FROM unnest(%s::text[]) AS made(id), checkpoints_app_packedge AS edge WHERE edge.checkpoint_id = %s
"""
_COPY_MANIFEST_EDGES = """
INSERT INTO checkpoints_app_manifestedge (checkpoint_id, manifest_id)
SELECT made.id, edge.manifest_id FROM unnest(%s::text[]) AS made(id), checkpoints_app_manifestedge AS edge WHERE edge.checkpoint_id = %s
"""


def share(checkpoint: Checkpoint, children: Sequence[Session]) -> list[Checkpoint]:
    """A published checkpoint for each child, its head, with the content of the one given.

    Prerequisite: inside the transaction that creates the children. Raises NotRestorable if the checkpoint is not published any more.
    """
    hold(checkpoint)
    made = [_row(checkpoint, child) for child in children]
    Checkpoint.objects.bulk_create(made)
    ids = [row.id for row in made]
    Checkpoint.objects.filter(id__in=ids).update(published_at=Now())
    with connection.cursor() as cursor:
        cursor.execute(_COPY_PACK_EDGES, [ids, checkpoint.id])
        cursor.execute(_COPY_MANIFEST_EDGES, [ids, checkpoint.id])
    for child, row in zip(children, made, strict=True):
        row.refresh_from_db()
        child.head_checkpoint_id, child.head_checkpoint_at, child.pin_digest = row.id, row.published_at, row.pin_id
        child.save(update_fields=["head_checkpoint_id", "head_checkpoint_at", "pin_digest"])
    return made


def hold(checkpoint: Checkpoint) -> None:
    """FOR SHARE on all that the checkpoint needs, in the order in which erasure locks, and then a look whether it is still published.

    While it is, its own edges keep every unit; an erasure that comes later waits for this transaction and sees the children's edges.
    """
    for model, edges in ((Pack, checkpoint.edges.values_list("pack_id", flat=True)), (Manifest, _manifests(checkpoint))):
        table = model._meta.db_table
        list(model._default_manager.raw(f"SELECT id FROM {table} WHERE id = ANY(%s) ORDER BY id FOR SHARE", [list(edges)]))  # noqa: S608
    Checkpoint.objects.select_for_update(no_key=True).get(id=checkpoint.id)
    restorable(checkpoint.session, checkpoint.id)


def _manifests(checkpoint: Checkpoint) -> "list[str]":
    return list(checkpoint.manifest_edges.values_list("manifest_id", flat=True))


def _row(checkpoint: Checkpoint, child: Session) -> Checkpoint:
    """No operation made it that could look for it by its own id, and nothing was stored for it."""
    return Checkpoint(
        account_id=checkpoint.account_id,
        session=child,
        parent=checkpoint,
        state=CheckpointState.PUBLISHED,
        operation_id="",
        lease_token=0,
        pin_id=checkpoint.pin_id,
        image_digest=checkpoint.image_digest,
        source_epoch=child.epoch,
        reason="fork",
        boundary=BOUNDARY,
        event_watermark=child.event_count,
        watermarks=checkpoint.watermarks,
        manifest_id=checkpoint.manifest_id,
        content_digest=checkpoint.content_digest,
        memory_root=checkpoint.memory_root,
        disk_root=checkpoint.disk_root,
        logical_bytes=checkpoint.logical_bytes,
        written_bytes=0,
        unique_bytes=0,
        stored_bytes=0,
    )
