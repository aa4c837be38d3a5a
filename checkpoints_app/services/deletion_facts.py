"""What a session's deletion would erase of the store, for its plan. Changes nothing; asks only about what the session itself holds."""

from typing import Any

from django.db.models import Exists, OuterRef, Sum

from checkpoints_app.models import Checkpoint, Manifest, ManifestEdge, Pack, PackEdge
from checkpoints_app.states import CheckpointState
from sessions_app.models import Session

_HELD = (CheckpointState.PUBLISHED, CheckpointState.CORRUPT)


def of_session(session: Session) -> dict[str, Any]:
    """`stored_bytes_only_here`: in the store's bytes, of packs and manifests that nobody else needs. Null where others need a part of a
    pack: what its rewriting frees is known when it is done; `stored_bytes_at_least` is known always.
    """
    held = Checkpoint.objects.filter(session=session, state__in=_HELD)
    newest = held.order_by("-created_at", "-id").first()
    packs = Pack.objects.filter(Exists(_edges(PackEdge, "pack").filter(checkpoint__session=session)))
    needed_by_others = Exists(_edges(PackEdge, "pack").exclude(checkpoint__session=session))
    shared = packs.filter(needed_by_others).count()
    own = _stored(packs.exclude(needed_by_others)) + _stored(_own_manifests(session))
    return {
        "checkpoints": held.count(),
        "newest_checkpoint_id": newest.id if newest else None,
        "newest_checkpoint_at": newest.created_at.isoformat() if newest else None,
        "stored_bytes_only_here": None if shared else own,
        "stored_bytes_at_least": own,
        "packs_shared": shared,
    }


def _own_manifests(session: Session) -> Any:
    mine = Manifest.objects.filter(Exists(_edges(ManifestEdge, "manifest").filter(checkpoint__session=session)))
    return mine.exclude(Exists(_edges(ManifestEdge, "manifest").exclude(checkpoint__session=session)))


def _edges(model: Any, name: str) -> Any:
    return model.objects.filter(**{name: OuterRef("pk")})


def _stored(rows: Any) -> int:
    return int(rows.aggregate(total=Sum("stored_bytes"))["total"] or 0)
