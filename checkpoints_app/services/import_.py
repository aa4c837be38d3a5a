"""Import: an export file becomes a parked session of an account, with that checkpoint published.

Nothing is in the database before one commit at the end writes session, checkpoint, packs and edges: whatever dies before it leaves objects
that no row names, which the sweep of orphans removes, and the same call starts over. After it, a repetition finds what was imported.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO

from django.db import transaction

from checkpoints_app.models import AccountKey, Checkpoint
from checkpoints_app.models.checkpoint import new_checkpoint_id
from checkpoints_app.services import dedup, key, pin, publish, storage
from checkpoints_app.services.dedup import Dedup
from checkpoints_app.services.export import refused
from checkpoints_app.services.import_facts import Described, describe
from checkpoints_app.services.relied import PacksMoved
from checkpoints_app.states import CheckpointState
from checkpoints_app.store import CheckpointWriter, IntegrityError, SecretKey, UnitIndex
from checkpoints_app.store.backends.backend import Step, no_step
from checkpoints_app.store.export_import import add_images
from checkpoints_app.store.export_reader import ExportReader
from sessions_app.ids import new_session_id
from sessions_app.models import Account, SessionEvent
from sessions_app.services import arrival, quota
from sessions_app.services.lease import Lease

SOURCE = "import"
REASON, BOUNDARY = "imported", "import"
_EVENTS_BEFORE = 1  # the session's history begins here with its import


@dataclass(frozen=True)
class Imported:
    session_id: str
    checkpoint_id: str
    content: str  # account-independent digest of pin and images
    repeated: bool  # an earlier import of this file had made it


def import_(account: Account, file: BinaryIO, export_key: SecretKey, *, again: bool = False, step: Step = no_step) -> Imported:
    """Prerequisite: the image is registered here. With `again`, a file that was imported before becomes another session.

    Raises IntegrityFailed (a changed or cut file, another key), Invalid (an image that is not known here, a machine out of bounds),
    StoreError, OSError: nothing was published then. The pin may be one that no host here has: a resume is refused then, not the import.
    """
    try:
        try:
            return _import(account, file, export_key, again=again, look_up=True, step=step)
        except PacksMoved:  # content that was found here is being erased: store the whole file, and rely on nothing
            file.seek(0)
            return _import(account, file, export_key, again=again, look_up=False, step=step)
    except IntegrityError as error:
        raise refused(error) from error


def _import(account: Account, file: BinaryIO, export_key: SecretKey, *, again: bool, look_up: bool, step: Step) -> Imported:
    reader = ExportReader(file, export_key)
    described = describe(reader.head)
    if not again and (found := _imported_before(account, reader.export_id)):
        return found
    with transaction.atomic():
        quota.require_import(account.id)  # asked again in the commit that makes the session: here nothing has been stored yet
    keys = key.keys_to_save(account.id)
    known = dedup.index_for(account.id, keys, None) if look_up else Dedup(UnitIndex(), {})
    session_id, checkpoint_id = new_session_id(), new_checkpoint_id()
    with CheckpointWriter(storage.backend(), keys, account.id, None, known.index, step=step) as writer:
        add_images(reader, writer)
        plan = writer.finish(_facts(described, reader, session_id, checkpoint_id))
    step("stored")
    assert reader.trailer is not None
    made = Imported(session_id, checkpoint_id, reader.trailer.content, repeated=False)
    try:
        with transaction.atomic():
            AccountKey.objects.select_for_update().get(account=account)  # two imports of one file, one after the other
            found = None if again else _imported_before(account, reader.export_id)
            if found is None:
                _publish(account, described, reader, made, publish.stored_of(plan, known.versions))
                step("published")
    except PacksMoved:
        storage.discard(account.id, [pack.pack_id for pack in plan.new_packs], plan.manifest.manifest_id)
        raise
    if found is not None:
        storage.discard(account.id, [pack.pack_id for pack in plan.new_packs], plan.manifest.manifest_id)
    return found or made


def _publish(account: Account, described: Described, reader: ExportReader, made: Imported, stored: publish.Stored) -> None:
    session = arrival.park(
        account,
        made.session_id,
        described.image,
        memory_bytes=described.memory_bytes,
        cpus=described.cpus,
        source=SOURCE,
        facts={
            "export": reader.export_id,
            "content": made.content,
            "exported_checkpoint": described.checkpoint_id,
            "checkpoint_id": made.checkpoint_id,
        },
    )
    lease = Lease(operation_id="", token=0, attempt=1, seconds=0)  # no operation: this transaction is the whole of it
    checkpoint = Checkpoint.objects.create(
        id=made.checkpoint_id,
        account=account,
        session=session,
        state=CheckpointState.UPLOADING,
        operation_id=lease.operation_id,
        lease_token=lease.token,
        pin=pin.record(described.image.architecture, described.pin_facts),
        image_digest=described.image.digest,
        source_epoch=session.epoch,
        reason=REASON,
        boundary=BOUNDARY,
        event_watermark=_EVENTS_BEFORE,
    )
    publish.publish(checkpoint, stored, lease, source=SOURCE)


def _facts(described: Described, reader: ExportReader, session_id: str, checkpoint_id: str) -> dict[str, Any]:
    """As a save writes them (workers/save/capture.py), of the new session."""
    return {
        "pin": described.pin_digest,
        "pin_facts": described.pin_facts,
        "watermarks": {"events": _EVENTS_BEFORE},
        "checkpoint": checkpoint_id,
        "session": session_id,
        "epoch": 0,
        "taken_at": datetime.now(UTC).isoformat(),
        "boundary": BOUNDARY,
        "reason": REASON,
        "parent": None,
        "image": described.image.digest,
        "image_name": described.image.name,
        "machine": {"memory_bytes": described.memory_bytes, "cpus": described.cpus, "architecture": described.image.architecture},
        "imported": {"export": reader.export_id, "checkpoint": described.checkpoint_id},
    }


def _imported_before(account: Account, export_id: str) -> Imported | None:
    events = SessionEvent.objects.filter(session__account=account, type="session.imported", payload__export=export_id)
    found = events.exclude(session__deleted_at__isnull=False).order_by("recorded_at").first()
    if found is None:
        return None
    return Imported(found.session_id, found.payload["checkpoint_id"], found.payload["content"], repeated=True)
