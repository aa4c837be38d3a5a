"""What a cancelled operation tells: how it left the session."""

from collections.abc import Mapping

from sessions_app.errors import Cancelled
from sessions_app.states import OperationKind
from workers.operations.work import Work

_TOLD: Mapping[str, tuple[str, str]] = {
    OperationKind.BOOT: ("The boot was cancelled; no machine runs.", "Delete the session with force=1."),
    OperationKind.CHECKPOINT: (
        "The save was cancelled before it was published; the previous checkpoint is the newest.",
        "Save again when you want to.",
    ),
    OperationKind.RESUME: ("The resume was cancelled; no machine runs, and the checkpoint is intact.", "Resume again when you want to."),
    OperationKind.RESTORE: (
        "The restore was cancelled; the checkpoint is intact.",
        "Read the session: a machine that ran runs on, unless it was ended before the cancel was heard.",
    ),
    OperationKind.EXEC: (
        "The command was ended in the guest and its output dropped. What it had done by then is not undone.",
        "Look in the guest for what it has done.",
    ),
}


def told(work: Work) -> Cancelled:
    """Of an operation whose work has been left; the session is read as it is now."""
    message, next_action = _TOLD.get(work.operation.kind, ("The operation was cancelled.", "Read the session."))
    work.session.refresh_from_db()
    return Cancelled(message, next_action=next_action, facts={"runtime_state": work.session.runtime_state})
