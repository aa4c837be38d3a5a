"""The states of this app as data: which there are, which are final, and which may follow which.

`docs/states.md` is generated from these tables (`manage.py write_states`), and a test holds it to them.
"""

from collections.abc import Mapping
from enum import StrEnum


class SessionState(StrEnum):
    PROVISIONING = "provisioning"
    RUNNING = "running"
    CHECKPOINTING = "checkpointing"
    STOPPING = "stopping"
    PARKED = "parked"
    RESUMING = "resuming"
    FAILED = "failed"
    RECOVERY_REQUIRED = "recovery_required"
    DELETING = "deleting"
    DELETED = "deleted"


_S = SessionState

SESSION_TRANSITIONS: Mapping[SessionState, frozenset[SessionState]] = {
    _S.PROVISIONING: frozenset({_S.RUNNING, _S.FAILED, _S.DELETING}),
    _S.RUNNING: frozenset({_S.CHECKPOINTING, _S.RESUMING, _S.FAILED, _S.DELETING}),
    _S.CHECKPOINTING: frozenset({_S.RUNNING, _S.STOPPING, _S.FAILED, _S.DELETING}),
    _S.STOPPING: frozenset({_S.PARKED, _S.FAILED, _S.DELETING}),
    _S.PARKED: frozenset({_S.RESUMING, _S.DELETING}),
    _S.RESUMING: frozenset({_S.RUNNING, _S.PARKED, _S.FAILED, _S.RECOVERY_REQUIRED, _S.DELETING}),
    _S.FAILED: frozenset({_S.RESUMING, _S.DELETING}),
    _S.RECOVERY_REQUIRED: frozenset({_S.RESUMING, _S.DELETING}),
    _S.DELETING: frozenset({_S.DELETED}),
    _S.DELETED: frozenset(),
}

#: A machine may be alive in these; the host's observation looks after it.
SESSION_LIVE = frozenset({_S.RUNNING, _S.CHECKPOINTING, _S.STOPPING})


class OperationState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RECONCILIATION_REQUIRED = "reconciliation_required"


_O = OperationState

OPERATION_TRANSITIONS: Mapping[OperationState, frozenset[OperationState]] = {
    _O.QUEUED: frozenset({_O.RUNNING, _O.FAILED, _O.CANCELLED}),
    # an operation whose worker was lost stays running: its next worker claims it with a new token
    _O.RUNNING: frozenset({_O.SUCCEEDED, _O.FAILED, _O.CANCELLED, _O.RECONCILIATION_REQUIRED}),
    _O.SUCCEEDED: frozenset(),
    _O.FAILED: frozenset(),
    _O.CANCELLED: frozenset(),
    _O.RECONCILIATION_REQUIRED: frozenset(),
}
#: What clients read of a running operation that was asked to stop: the request alone changes no state.
CANCELLING = "cancelling"
OPERATION_ACTIVE = frozenset({_O.QUEUED, _O.RUNNING})
OPERATION_FINAL = frozenset(_O) - OPERATION_ACTIVE


class OperationKind(StrEnum):
    BOOT = "boot"
    CHECKPOINT = "checkpoint"
    RESUME = "resume"
    DELETE = "delete"
    EXEC = "exec"
    FORK = "fork"
    RESTORE = "restore"


class DeletionState(StrEnum):
    """Of an account's deletion. What was shown before it is a plan, and has changed nothing."""

    SCHEDULED = "scheduled"  # the account is closing; it can be cancelled
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


_A = DeletionState

DELETION_TRANSITIONS: Mapping[DeletionState, frozenset[DeletionState]] = {
    _A.SCHEDULED: frozenset({_A.RUNNING, _A.CANCELLED}),
    _A.RUNNING: frozenset({_A.DONE}),
    _A.DONE: frozenset(),
    _A.CANCELLED: frozenset(),
}
DELETION_ACTIVE = frozenset({_A.SCHEDULED, _A.RUNNING})


class PlanKind(StrEnum):
    FORK = "fork"
    SESSION_DELETION = "session_deletion"
    ACCOUNT_DELETION = "account_deletion"
    RETENTION = "retention"
    KEY_DELETION = "key_deletion"


class DeliveryState(StrEnum):
    """Of a webhook's message. `pending` is tried again until it is taken or given up."""

    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class DeviceGrantState(StrEnum):
    """A sign-in that a terminal has begun and a person decides on in a browser. It ends for everybody when its time is over."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    CONSUMED = "consumed"  # its one token was handed out


_D = DeviceGrantState

DEVICE_GRANT_TRANSITIONS: Mapping[DeviceGrantState, frozenset[DeviceGrantState]] = {
    _D.PENDING: frozenset({_D.APPROVED, _D.DENIED}),
    # between the approval and the poll that takes the token the user may have lost what he approved with
    _D.APPROVED: frozenset({_D.CONSUMED, _D.DENIED}),
    _D.DENIED: frozenset(),
    _D.CONSUMED: frozenset(),
}


class RecordKind(StrEnum):
    """What a line of the service record tells of."""

    LIFECYCLE = "lifecycle"
    USAGE = "usage"
    OPERATOR = "operator"


class Standing(StrEnum):
    """How far a figure of usage may be relied on; one that is unavailable is null."""

    ACTUAL = "actual"
    ESTIMATED = "estimated"
    UNAVAILABLE = "unavailable"


class WaitsFor(StrEnum):
    """Why an operation that was accepted has no host yet."""

    NO_ROOM = "no_room"
    DRAINING = "draining"
    NO_HOST = "no_host"  # one that was there when it was accepted, or that is there without the worker that would begin it


class ResumedBy(StrEnum):
    """Who asked for a resume in the owner's stead: in the operation's parameters, under `by`."""

    HOST_LOST = "host_lost"  # its host is gone, and it goes on elsewhere from its last checkpoint
    MACHINE_LOST = "machine_lost"  # its process is gone, and its owner wants it to go on from its last checkpoint
    MOVED = "moved"  # an operator moves it: it was saved and stopped on another host a moment ago


class ResumeMode(StrEnum):
    """How a machine's memory comes back where its image has yet to be made."""

    WHOLE = "whole"  # all of it is verified before the machine runs
    LAZY = "lazy"  # the machine runs, each byte is verified before it is read, and nothing is saved until all have been


#: One of these at a time on a session; a command may run beside them.
EXCLUSIVE_KINDS = frozenset(set(OperationKind) - {OperationKind.EXEC})

#: The states of a session in which a kind of operation may be asked for.
ALLOWED_FROM: Mapping[OperationKind, frozenset[SessionState]] = {
    OperationKind.BOOT: frozenset({_S.PROVISIONING}),
    OperationKind.CHECKPOINT: frozenset({_S.RUNNING}),
    # A running session whose process is gone is not yet known to be so: the worker looks, and refuses if the machine lives.
    OperationKind.RESUME: frozenset({_S.PARKED, _S.FAILED, _S.RECOVERY_REQUIRED, _S.RUNNING}),
    OperationKind.DELETE: frozenset(set(_S) - {_S.DELETED}),
    OperationKind.EXEC: frozenset({_S.RUNNING, _S.CHECKPOINTING}),
    # The children come from a checkpoint; only a running session is saved for them.
    OperationKind.FORK: frozenset({_S.RUNNING, _S.PARKED, _S.FAILED, _S.RECOVERY_REQUIRED}),
    # The machine of a running session is ended for it, after what is restored has been verified.
    OperationKind.RESTORE: frozenset({_S.RUNNING, _S.PARKED, _S.FAILED, _S.RECOVERY_REQUIRED}),
}

#: Words that the capability document publishes, by kind of state.
VOCABULARIES: Mapping[str, list[str]] = {
    "session_runtime": [state.value for state in SessionState],
    "operation": [*(state.value for state in OperationState), CANCELLING],
    "operation_waits_for": [reason.value for reason in WaitsFor],
}
