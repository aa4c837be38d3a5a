"""Which checkpoints of a session something needs at this moment, so that nobody takes them away under it."""

from checkpoints_app.models import Checkpoint
from checkpoints_app.states import CHECKPOINT_UNFINISHED
from sessions_app.models import Operation, Session
from sessions_app.states import OPERATION_ACTIVE


def of(session: Session) -> dict[str, str]:
    """By checkpoint, the operation that needs it; "" where it is a machine whose memory still streams from it.

    A save builds on the head, which is kept besides; what its lineage holds is held by edges, not by older points.
    """
    needed = {}
    active = Operation.objects.filter(session=session, state__in=OPERATION_ACTIVE)
    for operation_id, parameters in active.values_list("id", "parameters"):
        if checkpoint_id := parameters.get("checkpoint_id"):
            needed[str(checkpoint_id)] = operation_id
    for row in Checkpoint.objects.filter(session=session, state__in=CHECKPOINT_UNFINISHED).only("parent_id", "operation_id"):
        if row.parent_id:
            needed.setdefault(row.parent_id, row.operation_id)
    if session.verifying and session.head_checkpoint_id:
        needed.setdefault(session.head_checkpoint_id, "")
    return needed
