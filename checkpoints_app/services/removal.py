"""A single checkpoint's end: decided in one commit, which takes it from everybody, and erased after it, however often that is tried.

A checkpoint whose end is decided is `erasing`: it is not restored, forked or named any more, and its name and reason are gone already. The
beat erases what is decided (services/retention.py); it is rung at once, and a worker that dies leaves the rest to its next turn.
"""

from collections.abc import Sequence

from django.db import transaction

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint_list, erase, needs
from checkpoints_app.states import CHECKPOINT_UNFINISHED, CheckpointState
from sessions_app.errors import Conflict
from sessions_app.models import Session
from sessions_app.services import dispatch, event, operation, record
from sessions_app.states import SESSION_LIVE, RecordKind

_DECIDED = (CheckpointState.ERASING, CheckpointState.ERASED)


def decide(session: Session, rows: Sequence[Checkpoint], *, type_: str, actor: str) -> None:
    """Prerequisite: inside a transaction that has locked the rows in the order of their ids, then the session."""
    erase.mark(Checkpoint.objects.filter(id__in=[row.id for row in rows]))
    Checkpoint.objects.filter(id__in=[row.id for row in rows]).update(name="", reason="")
    for row in rows:
        facts = {"checkpoint_id": row.id, "created_at": row.created_at.isoformat()}
        event.append(session.id, type_, facts, source=actor, subject=("checkpoint", row.id))
        record.write(RecordKind.LIFECYCLE, type_, account_id=session.account_id, session_id=session.id, actor=actor, facts=facts)


@transaction.atomic
def delete(session: Session, checkpoint_id: str) -> Checkpoint:
    """At its owner's word: taken from everybody now, and erased in the next minute. Safe to repeat. An operator's hold does not keep it.

    Raises NotFound; Conflict for one that is being saved or is needed, and for the last valid one of a session whose machine does not run:
    that session could never be resumed, and is deleted as a whole instead.
    """
    row = checkpoint_list.find(session, checkpoint_id, Checkpoint.objects.select_for_update(no_key=True))
    session = operation.lock(session)
    if row.state in _DECIDED:
        return row
    _require_free(session, row)
    decide(session, [row], type_="checkpoint.deleted", actor="api")
    dispatch.ring_retention()
    row.refresh_from_db()
    return row


def _require_free(session: Session, row: Checkpoint) -> None:
    if row.state in CHECKPOINT_UNFINISHED:
        raise Conflict("The checkpoint is being saved. It was not deleted.", next_action="Wait for the save, or cancel its operation.")
    needed = needs.of(session)
    if row.id in needed:
        by = f"the operation {needed[row.id]}" if needed[row.id] else "the machine, whose memory still streams from it,"
        raise Conflict(
            f"The checkpoint is needed: {by} has not ended with it. It was not deleted.",
            next_action="Wait for that, then delete it again.",
            facts={"checkpoint_id": row.id, "operation_id": needed[row.id] or None},
        )
    valid = Checkpoint.objects.filter(session=session, state=CheckpointState.PUBLISHED).exclude(id=row.id)
    if row.state == CheckpointState.PUBLISHED and session.runtime_state not in SESSION_LIVE and not valid.exists():
        raise Conflict(
            f"It is the only valid checkpoint, and the session is {session.runtime_state}: without it nothing of the session is left. "
            "It was not deleted.",
            next_action=f"Delete the session: DELETE /api/v2/sessions/{session.id}.",
            facts={"checkpoint_id": row.id, "runtime_state": session.runtime_state},
            code="ks_last_checkpoint",
        )
