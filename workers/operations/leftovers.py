"""Remove what nobody will come back for: machines of epochs that were left, what saves held whose operation has ended.

First rule: what is not certainly ours is not touched. A directory that the database does not know is left alone and told.
"""

import logging
import shutil
from pathlib import Path

from sessions_app.models import Operation, Session
from sessions_app.states import OPERATION_ACTIVE, SessionState
from workers.host import machines
from workers.host.identity import epoch_of, machines_directory, staging_directory
from workers.operations.settle import busy

log = logging.getLogger(__name__)
_WITHOUT_MACHINE = (SessionState.PARKED, SessionState.FAILED, SessionState.RECOVERY_REQUIRED, SessionState.DELETED)


def sweep_leftovers() -> None:
    """One directory that cannot be removed never keeps the others."""
    for directory in [*machines_directory().glob("*"), *staging_directory().glob("*")]:
        try:
            _sweep(directory)
        except Exception:
            log.exception("a leftover could not be removed", extra={"directory": directory.name})


def _sweep(directory: Path) -> None:
    owner = directory.name.partition(".")[0]
    if directory.parent == staging_directory():
        _sweep_staging(directory, owner)
        return
    session, epoch = Session.objects.filter(id=owner).first(), epoch_of(directory)
    if session is None or epoch is None:
        log.warning("a runtime directory of no known session; not touched", extra={"directory": directory.name})
    elif epoch < session.epoch or (session.runtime_state in _WITHOUT_MACHINE and not busy(session)):
        machines.end(directory)


def _sweep_staging(directory: Path, operation_id: str) -> None:
    """A successor removes what earlier attempts left; what the last attempt left has no successor. It is a guest's memory, in the clear."""
    operation = Operation.objects.filter(id=operation_id).first()
    if operation is None:
        log.warning("staging of no known operation; not touched", extra={"directory": directory.name})
    elif operation.state not in OPERATION_ACTIVE:
        shutil.rmtree(directory, ignore_errors=True)
