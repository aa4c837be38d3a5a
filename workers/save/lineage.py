"""What a save is a delta to, and where its content is looked up."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import dedup, storage, verify
from checkpoints_app.services.dedup import Dedup
from checkpoints_app.services.relied import PacksMoved
from checkpoints_app.states import CheckpointState
from checkpoints_app.store import AccountKeys, IntegrityError, Manifest, MissingObjectError, load_manifest

log = logging.getLogger(__name__)

ANEW = "anew"  # in a machine's note: its last save failed the re-check, the next one rests on no parent


@dataclass(frozen=True)
class Lineage:
    """`parent` and `manifest` are None where all is stored anew: at a machine's first save, or where the parent is not whole any more."""

    parent: Checkpoint | None
    manifest: Manifest | None
    dedup: Dedup


def lineage(checkpoint: Checkpoint, line: Mapping[str, object], keys: AccountKeys) -> Lineage:
    """`line` is the machine's note. A fresh look at each call: a save that found its packs moved asks again. Raises BackendError."""
    account_id, parent = checkpoint.account_id, _parent(checkpoint, line)
    if parent is not None:
        try:
            manifest = load_manifest(storage.backend(), keys, account_id, parent.manifest_id)
            return Lineage(parent, manifest, dedup.index_for(account_id, keys, manifest))
        except IntegrityError as error:
            log.warning("the parent is corrupt: everything is stored anew", extra={"parent": parent.id}, exc_info=True)
            verify.refused(parent, error, source=f"operation/{checkpoint.operation_id}")
        except (MissingObjectError, PacksMoved):
            storage.require_present(account_id)  # or the save would begin anew in whatever is there instead of the store
            log.warning("the parent cannot be relied on: everything is stored anew", extra={"parent": parent.id}, exc_info=True)
    return Lineage(None, None, dedup.index_for(account_id, keys, None))


def _parent(checkpoint: Checkpoint, line: Mapping[str, object]) -> Checkpoint | None:
    """The session's head, if the machine's written pages are written over it: it was saved from this process, or the process began with it.

    After the erasure of a checkpoint the head may be older than that; then its pages do not lie under the machine's.
    """
    if line.get(ANEW):
        return None
    parent = Checkpoint.objects.filter(id=checkpoint.parent_id, state=CheckpointState.PUBLISHED).first()
    if parent is None or parent.source_epoch == checkpoint.source_epoch or line.get("checkpoint") == parent.id:
        return parent
    return None
