"""The stable word for what went wrong in a save or a resume, whoever raised it."""

import errno

from checkpoints_app.store import BackendError
from sessions_app.errors import ServiceError
from workers.machine.driver import MachineError


def reason_of(error: Exception) -> str:
    """`no_space`, a code of the driver or of the store, the word of a refusal, or `internal`."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no_space"
    if isinstance(error, ServiceError):
        return error.word
    return error.code if isinstance(error, MachineError | BackendError) else "internal"
