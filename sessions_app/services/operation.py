"""Operations: accepted once per idempotency key, one exclusive kind at a time per session."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction

from sessions_app.errors import Conflict, NotFound, ServiceError, WrongState
from sessions_app.models import Account, Operation, RecordedRequest, Session
from sessions_app.services import account as accounts
from sessions_app.services import dispatch, quota
from sessions_app.services.placement import Place, Placement
from sessions_app.states import ALLOWED_FROM, EXCLUSIVE_KINDS, OPERATION_ACTIVE, OperationKind, SessionState

#: What an idempotency key may be: visible ASCII, no blanks.
KEY = re.compile(r"[\x21-\x7e]{8,100}")


@dataclass(frozen=True)
class Asked:
    """The request that asks for an operation, as far as it decides what a repeated request means."""

    method: str = ""
    path: str = ""
    idempotency_key: str | None = None
    body: Any = field(default=None)

    @property
    def body_digest(self) -> str:
        return hashlib.sha256(json.dumps(self.body, sort_keys=True).encode()).hexdigest()


def replay(account: Account, asked: Asked) -> Operation | None:
    """The operation that this key already stands for, or None. Raises Conflict if the key came with another request."""
    if asked.idempotency_key is None:
        return None
    operation = Operation.objects.select_related("session").filter(account=account, idempotency_key=asked.idempotency_key).first()
    if operation is None:
        if RecordedRequest.objects.filter(account=account, key=asked.idempotency_key).exists():
            raise key_conflict({})
        return None
    if not operation.body_digest:
        raise Conflict(
            "This Idempotency-Key was used for a request about a session that has been deleted: its answer was erased with it. "
            "Nothing was done.",
            next_action="Send a new key with a new request.",
            facts={"operation_id": operation.id},
            code="ks_idempotency_conflict",
        )
    if (operation.method, operation.path, operation.body_digest) != (asked.method, asked.path, asked.body_digest):
        raise key_conflict({"operation_id": operation.id})
    return operation


def require_unused(account: Account, asked: Asked) -> None:
    """Raises Conflict if the request's key stands for an operation already."""
    operation = Operation.objects.filter(account=account, idempotency_key=asked.idempotency_key).first()
    if operation is not None:
        raise key_conflict({"operation_id": operation.id})


def key_conflict(facts: dict[str, Any]) -> Conflict:
    return Conflict(
        "This Idempotency-Key was used for another request. Nothing was done.",
        next_action="Send a new key with a new request; read the earlier outcome at /api/operations/<key>.",
        facts=facts,
        code="ks_idempotency_conflict",
    )


def once(account: Account, asked: Asked, do: Callable[[Asked], Operation]) -> tuple[Operation, bool]:
    """The operation that `do` accepts, or the one that the request's key stands for already; and whether it is that one.

    Of equal requests at the same time one has the effect. The others meet whatever the winner changed, as a refusal, and then find its row.
    """
    earlier = replay(account, asked)
    if earlier is not None:
        return earlier, True
    try:
        return do(asked), False
    except ServiceError:
        winner = replay(account, asked)
        if winner is None:
            raise
        return winner, True


def lock(session: Session) -> Session:
    """The session as it is now, its row held until the caller's transaction ends. Raises NotFound if it was deleted meanwhile."""
    row = Session.objects.select_for_update(no_key=True).get(id=session.id)
    if row.runtime_state == SessionState.DELETED:
        raise NotFound("There is no such session. It was deleted a moment ago.")
    return row


def accept(
    *,
    session: Session,
    kind: OperationKind,
    place: Place,
    asked: Asked,
    parameters: dict[str, Any] | None = None,
    max_attempts: int = 3,
    admitted: bool = False,
) -> Operation:
    """Write the row and ring, in one transaction with whatever the caller writes; what has no host yet is rung once it has one.

    `admitted`: an operation that was accepted before has its place in the account's quotas.

    Prerequisite: the session was locked or made in the caller's transaction. Raises WrongState, Conflict, QuotaExceeded, and what
    `place` raises; then nothing was written.
    """
    _require_may_begin(session, kind)
    if not admitted:
        quota.admit(session, kind, parameters or {})
    operation = _written(session, kind, asked, place(), parameters=parameters or {}, max_attempts=max_attempts)
    if not operation.waits_for:
        dispatch.ring(operation)
    return operation


def _require_may_begin(session: Session, kind: OperationKind) -> None:
    """Raises AccountClosing, WrongState, Conflict."""
    if kind not in accounts.WHILE_CLOSING:
        accounts.require_open(session.account_id)
    require_state(session, kind)
    if kind in EXCLUSIVE_KINDS and _exclusive(session) is not None:
        raise busy(session, kind)


def _written(
    session: Session, kind: OperationKind, asked: Asked, placement: Placement, *, parameters: dict[str, Any], max_attempts: int
) -> Operation:
    """The row. Raises Conflict for an operation that excludes another one: the index has the last word."""
    try:
        with transaction.atomic():
            return Operation.objects.create(
                account_id=session.account_id,
                session=session,
                kind=kind,
                parameters=parameters,
                queue=placement.queue,
                host_id=placement.host_id,
                reserved_bytes=placement.reserved_bytes,
                waits_for=placement.waits_for,
                waits_as=placement.waits_as,
                max_attempts=max_attempts,
                idempotency_key=asked.idempotency_key,
                method=asked.method,
                path=asked.path,
                body_digest=asked.body_digest,
            )
    except IntegrityError as error:
        raise busy(session, kind) from error


def active_of(sessions: Iterable[Session]) -> dict[str, Operation]:
    """The exclusive operation that each of the sessions is busy with, by session id; one query."""
    active = Operation.objects.filter(session__in=list(sessions), state__in=OPERATION_ACTIVE, kind__in=EXCLUSIVE_KINDS)
    return {operation.session_id: operation for operation in active}


def require_state(session: Session, kind: OperationKind) -> None:
    state = SessionState(session.runtime_state)
    if state in ALLOWED_FROM[kind]:
        return
    facts = {"runtime_state": state.value}
    if state == SessionState.STOPPING:
        raise WrongState(
            "The session is stopping.", next_action="Wait until it is parked, then ask again.", facts=facts, code="ks_stopping"
        )
    if kind != OperationKind.BOOT and waits_for_machine(session):
        raise no_engine(session)
    next_action = _way_out(session)
    if kind in (OperationKind.EXEC, OperationKind.CHECKPOINT):
        message = f"The session is {state}, not running. Nothing was done and nothing was woken."
        raise WrongState(message, next_action=next_action, facts=facts, code="ks_session_not_running")
    raise WrongState(f"A {kind} is not possible while the session is {state}. Nothing was done.", next_action=next_action, facts=facts)


def waits_for_machine(session: Session) -> bool:
    """A record that was made without a machine, and whose machine nobody has asked for."""
    return session.runtime_state == SessionState.PROVISIONING and session.epoch == 0 and _exclusive(session) is None


def no_engine(session: Session) -> WrongState:
    return WrongState(
        "The session is a record that has no machine yet. Nothing was done and nothing was started.",
        next_action=f"Give it one: POST /api/v2/sessions/{session.id}/provision.",
        facts={"runtime_state": session.runtime_state, "revision": session.revision},
        code="ks_session_no_engine",
    )


def _way_out(session: Session) -> str:
    if session.runtime_state in ALLOWED_FROM[OperationKind.RESUME]:
        return f"Resume it first: POST /api/sessions/{session.id}/resume."
    if session.runtime_state in (SessionState.DELETING, SessionState.DELETED):
        return "Start another session: POST /api/sessions."
    return f"Wait until it has changed its state: GET /api/v2/sessions/{session.id}."


def _exclusive(session: Session) -> Operation | None:
    return active_of([session]).get(session.id)


def busy(session: Session, kind: OperationKind) -> Conflict:
    active = _exclusive(session)
    if active is None:
        return Conflict(
            "Another request with this key or for this session came first. Nothing was done.", next_action="Read it, then ask again."
        )
    return Conflict(
        f"The session is busy: {active.kind} {active.id} is {active.state}. No {kind} was started.",
        next_action=f"Wait for it: GET /api/operations/{active.id}.",
        facts={"operation_id": active.id, "runtime_state": session.runtime_state},
    )


def find(account: Account, id_or_key: str) -> Operation:
    """By id or by idempotency key, of this account. Raises NotFound."""
    found = Operation.objects.select_related("session").filter(account=account)
    operation = None
    if KEY.fullmatch(id_or_key):
        operation = found.filter(id=id_or_key).first() or found.filter(idempotency_key=id_or_key).first()
    if operation is None:
        raise NotFound("There is no such operation. That does not prove that nothing was done under another key.")
    return operation
