"""Remove what nobody will come back for: machines of epochs that were left, networks whose machine is gone, what saves held
whose operation has ended.

First rule: what is not certainly ours is not touched. A directory of a session that neither the database nor the service record knows is
left alone and told. A host that was away while a session, or its whole account, was erased ends here what it still has of it.
"""

import logging
import shutil
import time
from pathlib import Path

from sessions_app.models import Operation, ServiceRecord, Session
from sessions_app.states import OPERATION_ACTIVE, SessionState
from workers.host import machines, turn
from workers.host.identity import epoch_of, machines_directory, networks_directory, staging_directory
from workers.machine.network import namespace
from workers.operations.settle import busy

log = logging.getLogger(__name__)
#: No save takes so long: what one has left of an operation that was erased since is a guest's memory that nobody will come back for.
STALE_SECONDS = 24 * 3600
_WITHOUT_MACHINE = (SessionState.PARKED, SessionState.FAILED, SessionState.RECOVERY_REQUIRED, SessionState.DELETED)


def sweep_leftovers() -> None:
    """One directory that cannot be removed never keeps the others."""
    for directory in [*machines_directory().glob("*"), *staging_directory().glob("*")]:
        try:
            _sweep(directory)
        except Exception:
            log.exception("a leftover could not be removed", extra={"directory": directory.name})
    for left in namespace.leftovers(networks_directory(), machines_directory()):
        namespace.remove(left)


def _sweep(directory: Path) -> None:
    owner = directory.name.partition(".")[0]
    if directory.parent == staging_directory():
        _sweep_staging(directory, owner)
        return
    epoch = epoch_of(directory)
    if epoch is None:
        log.warning("a runtime directory whose name is not ours; not touched", extra={"directory": directory.name})
        return
    session = Session.objects.filter(id=owner).first()
    if not _is_left(session, owner, epoch):
        return
    with turn.alone(owner, wait_seconds=0) as mine:  # who works on the session may be starting a machine there, and is told soon
        if mine:
            machines.end(directory)
        elif session is not None and epoch < session.epoch:
            machines.kill(directory)  # whoever works with it may do nothing more, and a command in it may take an hour


def _is_left(session: Session | None, session_id: str, epoch: int) -> bool:
    if session is not None:
        return epoch < session.epoch or (session.runtime_state in _WITHOUT_MACHINE and not busy(session))
    erased = ServiceRecord.objects.filter(session_id=session_id, type="session.erased").exists()
    if not erased:
        log.warning("a runtime directory of no known session; not touched", extra={"session_id": session_id})
    return erased


def _sweep_staging(directory: Path, operation_id: str) -> None:
    """A successor removes what earlier attempts left; what the last attempt left has no successor. It is a guest's memory, in the clear."""
    operation = Operation.objects.filter(id=operation_id).first()
    if operation is None and time.time() - directory.stat().st_mtime < STALE_SECONDS:
        log.warning("staging of no known operation; not touched before it is a day old", extra={"directory": directory.name})
    elif operation is None or operation.state not in OPERATION_ACTIVE:
        shutil.rmtree(directory, ignore_errors=True)
