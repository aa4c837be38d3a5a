"""An operation that failed or was cancelled, asked for again: a new operation under no key; the old one stays as it ended."""

from collections.abc import Callable, Mapping

from sessions_app.errors import Conflict
from sessions_app.models import Operation
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.states import OperationKind, OperationState

_ENDED_WITHOUT_EFFECT = frozenset({OperationState.FAILED, OperationState.CANCELLED})


def _save(operation: Operation) -> Operation:
    asked = operation.parameters
    return sessions.checkpoint(operation.session, stop=bool(asked.get("stop")), reason=str(asked.get("reason", "")), asked=Asked())


def _resume(operation: Operation) -> Operation:
    asked = operation.parameters
    return sessions.resume(operation.session, checkpoint_id=asked.get("checkpoint_id"), asked=Asked(), mode=asked.get("mode"))


#: What may be asked for again in its owner's stead: the effect is the one that the owner asked for, and a second one adds nothing.
_AGAIN: Mapping[str, Callable[[Operation], Operation]] = {
    OperationKind.CHECKPOINT: _save,
    OperationKind.RESUME: _resume,
}
_WHY_NOT: Mapping[str, str] = {
    OperationKind.BOOT: "A session is booted once: its owner starts another.",
    OperationKind.EXEC: "Whether the command had effects is its owner's to judge.",
    OperationKind.FORK: "Its children may exist: its owner plans it anew.",
    OperationKind.RESTORE: "What it leaves is its owner's to consent to.",
    OperationKind.DELETE: "A deletion is decided by its plan: delete the session again from its page.",
}


def offered(operation: Operation) -> bool:
    return operation.kind in _AGAIN and operation.state in _ENDED_WITHOUT_EFFECT


def again(operation: Operation) -> Operation:
    """The new operation. Raises Conflict for one that has not failed, or whose kind may not be repeated; else what its service raises."""
    if operation.state not in _ENDED_WITHOUT_EFFECT:
        raise Conflict(f"The {operation.kind} is {operation.state}: only what failed or was cancelled may be. Nothing was done.")
    ask = _AGAIN.get(operation.kind)
    if ask is None:
        why = _WHY_NOT.get(operation.kind, "Its owner asks for it anew.")
        raise Conflict(f"A {operation.kind} is not asked for again by an operator. {why} Nothing was done.")
    return ask(operation)
