"""What operations ask of the fleet, read from their rows."""

from collections.abc import Sequence

from django.db.models import BooleanField, Case, QuerySet, Value, When
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint
from sessions_app.models import Operation, Session
from sessions_app.services import waiting
from sessions_app.states import OperationKind
from workers.host.choice import Demand

#: So much of the line is looked at: who stands behind that waits until it is shorter.
LINE = 500
#: After this part of the longest wait, an operation counts as having waited for long (workers/host/choice.py).
LONG = 1 / 4


def line() -> "QuerySet[Operation]":
    """The first of what waits, in order of acceptance, with their sessions and whether they have waited for long."""
    long = Case(When(due_at__lt=Now() - waiting.longest() * LONG, then=Value(True)), default=Value(False), output_field=BooleanField())
    found: QuerySet[Operation] = waiting.line().select_related("session").annotate(waited_long=long)[:LINE]
    return found


def demands_of(operations: Sequence[Operation]) -> list[Demand]:
    """One for each, in their order; two queries at most."""
    named = [operation.parameters.get("checkpoint_id") or "" for operation in operations]
    rows = Checkpoint.objects.filter(id__in=set(named) - {""}).values_list("id", "pin_id", "memory_root")
    checkpoints = {id_: (pin, root) for id_, pin, root in rows}
    return [_demand(operation, *checkpoints.get(name, ("", ""))) for operation, name in zip(operations, named, strict=True)]


def _demand(operation: Operation, pin: str, root: str) -> Demand:
    session = operation.session
    return Demand(
        session.architecture,
        session.image_digest,
        0 if operation.kind == OperationKind.FORK else session.memory_bytes,
        pin,
        root,
        operation.parameters.get("host_id", ""),
        operation.parameters.get("avoid", ""),
        bool(getattr(operation, "waited_long", False)),
    )


def demand_of_checkpoint(session: Session, checkpoint: Checkpoint, *, with_machine: bool, host_id: str, avoid: str) -> Demand:
    memory_bytes = session.memory_bytes if with_machine else 0
    return Demand(session.architecture, session.image_digest, memory_bytes, checkpoint.pin_id, checkpoint.memory_root, host_id, avoid)
