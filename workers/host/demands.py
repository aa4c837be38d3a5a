"""What operations ask of the fleet, read from their rows."""

from collections.abc import Sequence

from checkpoints_app.models import Checkpoint
from sessions_app.models import Operation, Session
from sessions_app.states import OperationKind
from workers.host.choice import Demand


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
        bool(getattr(operation, "more_behind", False)),
    )


def demand_of_checkpoint(session: Session, checkpoint: Checkpoint, *, with_machine: bool, host_id: str, avoid: str) -> Demand:
    memory_bytes = session.memory_bytes if with_machine else 0
    return Demand(session.architecture, session.image_digest, memory_bytes, checkpoint.pin_id, checkpoint.memory_root, host_id, avoid)
