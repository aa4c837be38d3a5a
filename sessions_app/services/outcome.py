"""What may be said of an operation that did not come to its end: true for its kind, whatever point it had reached."""

from collections.abc import Mapping
from typing import Any

from sessions_app.errors import Internal
from sessions_app.states import OperationKind

_ASK_AGAIN = "Look at the session's state, then ask again. If it repeats, tell the operator this operation's id."

#: By kind: what is known all the same, and what to do next.
_KNOWN: Mapping[str, tuple[str, str]] = {
    OperationKind.BOOT: ("The session does not run.", "Delete the session with force=1 and create another."),
    OperationKind.CHECKPOINT: ("Every checkpoint that is listed as valid is intact.", _ASK_AGAIN),
    OperationKind.RESUME: ("Every checkpoint that is listed as valid is intact.", _ASK_AGAIN),
    OperationKind.DELETE: ("What was erased by then is gone.", "Delete the session again: it goes on where it stopped."),
    OperationKind.FORK: (
        "Either all of its children exist, or none; a child that exists is resumed by an operation of its own.",
        "List the sessions whose parent this one is before you fork it again.",
    ),
    OperationKind.RESTORE: (
        "Nothing of the history was rolled back. Whether the work continues from the checkpoint is not known.",
        "Read the session: `parked` means that it did not, and that it is at the head it had.",
    ),
    OperationKind.EXEC: (
        "Whether the command had effects is not known; it is not run again.",
        "Look in the guest for what it should have done before you run it again.",
    ),
}
#: What an error carries beside its words.
_FACTS: Mapping[str, Mapping[str, Any]] = {OperationKind.RESTORE: {"continuation": "unknown"}}


def unfinished(kind: str, happened: str) -> Internal:
    """`happened`: a sentence that says why it did not end."""
    known, next_action = _KNOWN[kind]
    return Internal(f"{happened} {known}", next_action=next_action, facts=_FACTS.get(kind))


_SUPERSEDED: Mapping[str, str] = {
    OperationKind.FORK: "Children that it has created live on, each a session of its own; none is created any more.",
    OperationKind.EXEC: "What the command had done in the guest by then is not undone.",
}


def superseded(kind: str, *, begun: bool) -> str:
    """Of an operation that a deletion of its session has ended."""
    if not begun:
        return "Cancelled before it began: the session is deleted."
    known = _SUPERSEDED.get(kind, "Nothing that it was at is published or started any more.")
    return f"Ended by the session's deletion. {known}"
