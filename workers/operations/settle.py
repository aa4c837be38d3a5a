"""Settle the sessions of this host that no operation looks after: machines that died, states whose operation ended without finishing."""

import logging
from typing import Any

from django.db import transaction

from checkpoints_app.services import checkpoint as checkpoints
from sessions_app.errors import WrongState
from sessions_app.models import Operation, Session
from sessions_app.services import awake
from sessions_app.services import session as sessions
from sessions_app.services.outcome import unfinished
from sessions_app.states import EXCLUSIVE_KINDS, OPERATION_ACTIVE, OperationKind, SessionState
from workers.host import machines
from workers.host.identity import host_id
from workers.machine.driver import MachineState
from workers.operations import host_loss, recovery
from workers.operations.ended import how_it_ended
from workers.operations.parking import reason_of_last_stop
from workers.operations.verification import trouble_of

log = logging.getLogger(__name__)
SOURCE = "host"
_TRANSIENT = [SessionState.PROVISIONING, SessionState.CHECKPOINTING, SessionState.STOPPING, SessionState.RESUMING]


def settle_host() -> None:
    """One bad session never keeps the others from being settled. Machines that were seen to run are awake until now (services/awake.py)."""
    alive = []
    for session in Session.objects.filter(host_id=host_id(), runtime_state__in=[SessionState.RUNNING, *_TRANSIENT]):
        try:
            if _unattended(session) and _settle(session):
                alive.append(session.id)
        except WrongState:
            log.info("session moved on by itself", extra={"session_id": session.id})
        except Exception:
            log.exception("session not settled", extra={"session_id": session.id})
    awake.prove(alive)


def _unattended(session: Session) -> bool:
    """No operation looks after it, and it is still as it was read.

    The state is read again *after* the operations: an operation that ended in between has moved it, and its machine must not be judged
    by the state before.
    """
    if busy(session):
        return False
    seen = (session.runtime_state, session.epoch)
    session.refresh_from_db()
    return seen == (session.runtime_state, session.epoch)


def busy(session: Session) -> bool:
    return Operation.objects.filter(session=session, state__in=OPERATION_ACTIVE, kind__in=EXCLUSIVE_KINDS).exists()


def _settle(session: Session) -> bool:
    """Whether its machine runs."""
    state = SessionState(session.runtime_state)
    if state == SessionState.STOPPING:  # only ever after publication
        machines.end_all(session.id, until_epoch=session.epoch)
        _move(session, SessionState.PARKED, "session.parked", park_reason=reason_of_last_stop(session), host_id="")
    elif state == SessionState.RESUMING:
        machines.end_all(session.id, until_epoch=session.epoch)
        _move(session, SessionState.PARKED, "session.resume_failed", park_reason="resume_failed", host_id="")
    elif state == SessionState.PROVISIONING:
        machines.end_all(session.id, until_epoch=session.epoch)
        failure = unfinished(OperationKind.BOOT, "The boot ended without a machine.").as_dict()
        _move(session, SessionState.FAILED, "session.failed", failure=failure, host_id="")
    else:
        return _settle_machine(session)
    return False


def _settle_machine(session: Session) -> bool:
    """`running` or `checkpointing`: what is true of the machine, and of the memory under it, decides."""
    if host_loss.went_with_its_host(session):  # first: nothing that served it lives, and that is not why it is gone
        loss = host_loss.by_restart(session, host_id())
        with transaction.atomic():
            _move(session, SessionState.FAILED, "session.host_lost", payload=loss.told, failure=loss.failure.as_dict(), host_id="")
            loss.record(SOURCE)
        return False
    trouble = trouble_of(session, source=SOURCE)
    if trouble is not None:
        machines.end_all(session.id, until_epoch=session.epoch)
        reason = {"reason": trouble.message}
        _move(session, SessionState.FAILED, "session.machine_lost", payload=reason, failure=trouble.as_dict(), host_id="")
        return False
    machine = machines.machine_of(session)
    if machine is None or machine.inspect().state == MachineState.DEAD:
        ended = how_it_ended(session, machine)
        _move(session, SessionState.FAILED, ended.event, payload=dict(ended.facts), failure=ended.failure.as_dict(), host_id="")
        return False
    if session.runtime_state == SessionState.CHECKPOINTING:
        machine.run()  # a save that died in its stopped window left it paused
        _move(session, SessionState.RUNNING, "session.running")
    return True


def _move(session: Session, to: SessionState, type_: str, **changes: Any) -> None:
    with transaction.atomic():
        Session.objects.select_for_update(no_key=True).get(id=session.id)
        if busy(session):
            raise WrongState("an operation looks after it now")
        if session.runtime_state == SessionState.CHECKPOINTING:
            checkpoints.fail_unfinished(session.id, None, {"code": "ks_save_failed", "message": "its worker was lost"}, source=SOURCE)
        sessions.move(session, [SessionState(session.runtime_state)], to, source=SOURCE, type_=type_, **changes)
        if to == SessionState.FAILED:
            recovery.recover(session, source=SOURCE)
