"""Which checkpoints a damage costs, and when they are whole again.

A checkpoint is corrupt while a unit or a manifest that it needs is bad; nothing else makes it so, and nothing of it is deleted.

Locks are taken as everywhere: packs by id, manifests by id, checkpoints by id, sessions by id.
"""

from typing import Any

from django.db import transaction

from checkpoints_app.models import Checkpoint, Manifest, ManifestEdge, Pack, PackEdge
from checkpoints_app.services import key, storage
from checkpoints_app.states import CheckpointState, ManifestState
from checkpoints_app.store import StoreError, load_manifest, verify_roots
from checkpoints_app.store.bitmap import UnitSet, decode_units
from sessions_app.models import Session
from sessions_app.services import event

SOURCE = "integrity"


def mark_needing(pack: Pack, bad: UnitSet, detail: str) -> list[str]:
    """Mark exactly the checkpoints that need a bad unit. Prerequisite: inside the transaction that holds the pack's row."""
    edges = PackEdge.objects.filter(pack_id=pack.id, checkpoint__state=CheckpointState.PUBLISHED).order_by("checkpoint_id")
    needing = [edge.checkpoint_id for edge in edges if (decode_units(edge.units, pack.unit_count) & bad).any()]
    _lock(needing)
    return [one for one in needing if mark(one, f"pack {pack.id}: {detail}", {"object": "pack"})]


def _lock(checkpoint_ids: list[str]) -> None:
    """All before the first is changed: what each of them changes in its session would lock sessions in the order of the checkpoints."""
    rows = Checkpoint.objects.filter(id__in=checkpoint_ids).select_for_update(no_key=True).order_by("id")
    session_ids = set(rows.values_list("session_id", flat=True))
    list(Session.objects.filter(id__in=session_ids).select_for_update(no_key=True).order_by("id").values_list("id"))


def mark(checkpoint_id: str, detail: str, facts: dict[str, Any], *, source: str = SOURCE) -> bool:
    """It is refused from now on. False if it was not published. Prerequisite: inside a transaction."""
    failure = {"code": "ks_integrity", "message": detail, **facts}
    found = Checkpoint.objects.filter(id=checkpoint_id, state=CheckpointState.PUBLISHED)
    if not found.update(state=CheckpointState.CORRUPT, failure=failure):
        return False
    session_id = Checkpoint.objects.values_list("session_id", flat=True).get(id=checkpoint_id)
    event.append(session_id, "checkpoint.corrupt", {"detail": detail}, source=source, subject=("checkpoint", checkpoint_id))
    return True


def mark_manifest(manifest: Manifest, detail: str) -> list[str]:
    """Mark every checkpoint that needs the manifest. Prerequisite: inside the transaction that holds its row."""
    edges = ManifestEdge.objects.filter(manifest_id=manifest.id, checkpoint__state=CheckpointState.PUBLISHED)
    needing = sorted(edges.values_list("checkpoint_id", flat=True))
    _lock(needing)
    return [one for one in needing if mark(one, f"manifest {manifest.id}: {detail}", {"object": "manifest"})]


def reconsider_holders(pack_id: str) -> list[str]:
    """Of the corrupt checkpoints that need this pack, those that nothing bad is known of any more are published again."""
    return reconsider(PackEdge.objects.filter(pack_id=pack_id).values_list("checkpoint_id", flat=True))


def reconsider(checkpoint_ids: Any) -> list[str]:
    """Each is read as far as its roots first: what was refused for another reason than a damaged object stays refused."""
    corrupt = Checkpoint.objects.filter(id__in=list(checkpoint_ids), state=CheckpointState.CORRUPT).order_by("id")
    return [row.id for row in corrupt if not _known_bad(row) and _reads(row) and _published_again(row.id)]


def _known_bad(checkpoint: Checkpoint) -> bool:
    """As far as the rows tell, before anything is read for it."""
    return _needs_something_bad(checkpoint, list(Pack.objects.filter(edges__checkpoint=checkpoint)))


def _reads(checkpoint: Checkpoint) -> bool:
    account_id = checkpoint.account_id
    try:
        keys = key.keys_to_read(account_id)
        manifest = load_manifest(storage.backend(), keys, account_id, checkpoint.manifest_id)
        verify_roots(storage.backend(), keys, account_id, manifest, generations=storage.generations)
    except (StoreError, ValueError):
        return False
    return manifest.digest == checkpoint.content_digest


def _published_again(checkpoint_id: str) -> bool:
    with transaction.atomic():
        packs = list(Pack.objects.select_for_update(of=("self",)).filter(edges__checkpoint_id=checkpoint_id).order_by("id"))
        row = Checkpoint.objects.select_for_update(no_key=True).get(id=checkpoint_id)
        if row.state != CheckpointState.CORRUPT or _needs_something_bad(row, packs):
            return False
        Checkpoint.objects.filter(id=row.id).update(state=CheckpointState.PUBLISHED, failure=None)
        event.append(row.session_id, "checkpoint.healed", {}, source=SOURCE, subject=("checkpoint", row.id))
        return True


def _needs_something_bad(checkpoint: Checkpoint, packs: list[Pack]) -> bool:
    edges = {edge.pack_id: edge for edge in checkpoint.edges.all()}
    for pack in packs:
        needed = decode_units(edges[pack.id].units, pack.unit_count)
        there = decode_units(pack.units, pack.unit_count) & ~decode_units(pack.bad, pack.unit_count)
        if (needed & ~there).any():
            return True
    manifests = Manifest.objects.filter(edges__checkpoint=checkpoint)
    return not manifests.exists() or manifests.exclude(state=ManifestState.LIVE).exists()
