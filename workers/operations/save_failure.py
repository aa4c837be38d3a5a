"""What a save that did not succeed tells: why, what is intact, whether the machine runs, and what to do next."""

from checkpoints_app.store import StoreError
from sessions_app.errors import Cancelled, MachineLost, SaveFailed, SaveUnavailable, ServiceError
from sessions_app.models import Session
from sessions_app.states import SessionState
from workers.machine.driver import MachineError
from workers.operations.reason import reason_of

_UNTOUCHED = "Nothing was published and the previous checkpoint is intact."
_DEAF = "the machine's process lives and does not obey; this host sets it running as soon as it does."
_RESUME = "Resume the session from its last checkpoint."
_LOOK = "Read the session until it is running, then save again. If it stays as it is, tell the operator this operation's id."
_ROOM = "Free space (delete sessions that are not needed, or tell the operator), then save again."
_AGAIN = "Save again; if it repeats, tell the operator this operation's id."
_LATER = "Save again in a moment; an operator sees in /readyz whether the store answers."
#: By what went wrong, where the machine runs on: how it is told, and what to do next.
_BY_REASON = {"no_space": (SaveFailed, _ROOM), "unavailable": (SaveUnavailable, _LATER)}


def machine_gone(session: Session) -> MachineLost:
    """The save found no machine, or one whose guest has ended."""
    return MachineLost(
        "The machine has ended. Nothing was saved; the last checkpoint is intact.", next_action=_RESUME, facts=_facts(session)
    )


def machine_deaf(session: Session) -> SaveFailed:
    """The save found a machine that lives and cannot be set running."""
    return SaveFailed(f"Nothing was saved: {_DEAF}", next_action=_LOOK, facts={**_facts(session), "reason": "monitor_silent"})


def save_failed(session: Session, error: Exception, state: SessionState) -> ServiceError:
    """`error` ended the save; `state` is what became of the machine (workers/operations/wake.py)."""
    if state == SessionState.FAILED:
        return MachineLost(f"The machine ended during the save. {_UNTOUCHED}", next_action=_RESUME, facts=_facts(session))
    if isinstance(error, Cancelled) and state == SessionState.RUNNING:
        return Cancelled(f"The save was cancelled. {_UNTOUCHED} The machine runs on.", facts=_facts(session))
    reason = reason_of(error)
    facts = {**_facts(session), "reason": reason}
    if state != SessionState.RUNNING:
        return SaveFailed(f"{_why(error, reason)} {_UNTOUCHED} But {_DEAF}", next_action=_LOOK, facts=facts)
    kind, next_action = _BY_REASON.get(reason, (SaveFailed, _AGAIN))
    return kind(f"{_why(error, reason)} {_UNTOUCHED} The machine runs on.", next_action=next_action, facts=facts)


def _why(error: Exception, reason: str) -> str:
    if reason == "no_space":
        return "The host or the store has no room for the save."
    what = str(error) if isinstance(error, MachineError | ServiceError | StoreError) else "the save failed inside KeepState"
    return f"Not saved: {what.rstrip('.')}."


def _facts(session: Session) -> dict[str, object]:
    """What the contract's save errors carry."""
    return {"checkpoint_recorded": False, "previous_checkpoint_id": session.head_checkpoint_id or None}
