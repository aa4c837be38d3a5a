"""Settle what no operation looks after: machines that died, states whose operation ended without finishing, leftovers of older epochs.

First rule: what is not certainly ours is not touched. A runtime directory whose session the database does not know is left alone and told.
"""

import logging
from typing import Any

from django.db import transaction

from checkpoints_app.models import Checkpoint
from checkpoints_app.states import CHECKPOINT_UNFINISHED, CheckpointState
from sessions_app.errors import MachineLost, WrongState
from sessions_app.models import Operation, Session
from sessions_app.services import session as sessions
from sessions_app.states import EXCLUSIVE_KINDS, OPERATION_ACTIVE, SessionState
from workers.host import machines
from workers.host.identity import host_id, machines_directory
from workers.machine.driver import MachineState

log = logging.getLogger(__name__)
SOURCE = "host"
_TRANSIENT = [SessionState.PROVISIONING, SessionState.CHECKPOINTING, SessionState.STOPPING, SessionState.RESUMING]


def settle_host() -> None:
    """One bad session never keeps the others from being settled."""
    for session in Session.objects.filter(host_id=host_id(), runtime_state__in=[SessionState.RUNNING, *_TRANSIENT]):
        try:
            if _unattended(session):
                _settle(session)
        except WrongState:
            log.info("session moved on by itself", extra={"session_id": session.id})
        except Exception:
            log.exception("session not settled", extra={"session_id": session.id})
    _sweep_leftovers()


def _unattended(session: Session) -> bool:
    """No operation looks after it, and it is still as it was read.

    The state is read again *after* the operations: an operation that ended in between has moved it, and its machine must not be judged
    by the state before.
    """
    if _busy(session):
        return False
    seen = (session.runtime_state, session.epoch)
    session.refresh_from_db()
    return seen == (session.runtime_state, session.epoch)


def _busy(session: Session) -> bool:
    return Operation.objects.filter(session=session, state__in=OPERATION_ACTIVE, kind__in=EXCLUSIVE_KINDS).exists()


def _settle(session: Session) -> None:
    state = SessionState(session.runtime_state)
    machine = machines.machine_of(session)
    alive = machine is not None and machine.inspect().state != MachineState.DEAD
    if state == SessionState.RUNNING and not alive:
        _move(session, SessionState.FAILED, "session.machine_lost", failure=_lost().as_dict(), host_id="")
    elif state == SessionState.CHECKPOINTING:
        _fail_checkpoints(session)
        if machine is not None and alive:
            machine.run()
            _move(session, SessionState.RUNNING, "session.running")
        else:
            _move(session, SessionState.FAILED, "session.machine_lost", failure=_lost().as_dict(), host_id="")
    elif state == SessionState.STOPPING:  # only ever after publication
        machines.end_all(session.id)
        _move(session, SessionState.PARKED, "session.parked", park_reason="requested", host_id="")
    elif state == SessionState.RESUMING:
        machines.end_all(session.id)
        _move(session, SessionState.PARKED, "session.resume_failed", park_reason="resume_failed", host_id="")
    elif state == SessionState.PROVISIONING:
        machines.end_all(session.id)
        _move(session, SessionState.FAILED, "session.failed", host_id="")


def _move(session: Session, to: SessionState, type_: str, **changes: Any) -> None:
    with transaction.atomic():
        Session.objects.select_for_update(no_key=True).get(id=session.id)
        if _busy(session):
            raise WrongState("an operation looks after it now")
        sessions.move(session, [SessionState(session.runtime_state)], to, source=SOURCE, type_=type_, **changes)


def _fail_checkpoints(session: Session) -> None:
    unfinished = Checkpoint.objects.filter(session=session, state__in=CHECKPOINT_UNFINISHED)
    unfinished.update(state=CheckpointState.FAILED, failure={"code": "ks_save_failed", "message": "its worker was lost"})


def _lost() -> MachineLost:
    return MachineLost("The machine's process ended on its own or was killed.", next_action="Resume the session from its last checkpoint.")


def _sweep_leftovers() -> None:
    """End machines of epochs that were left and remove directories of sessions that have no machine any more."""
    for runtime in machines_directory().glob("*.*"):
        session_id, _, epoch = runtime.name.partition(".")
        session = Session.objects.filter(id=session_id).first()
        if session is None:
            log.warning("a runtime directory of no known session; not touched", extra={"directory": runtime.name})
            continue
        stale = not epoch.isdecimal() or int(epoch) < session.epoch
        over = session.runtime_state in (SessionState.PARKED, SessionState.FAILED, SessionState.DELETED) and not _busy(session)
        if stale or over:
            machines.end(runtime)
