"""Operations: accepted once per idempotency key, one exclusive kind at a time per session."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction

from sessions_app.errors import Conflict, NotFound, WrongState
from sessions_app.models import Account, Operation, Session
from sessions_app.services import dispatch
from sessions_app.states import ALLOWED_FROM, EXCLUSIVE_KINDS, OPERATION_ACTIVE, OperationKind, SessionState


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
        return None
    if (operation.method, operation.path, operation.body_digest) != (asked.method, asked.path, asked.body_digest):
        raise Conflict(
            "This Idempotency-Key was used for another request. Nothing was done.",
            next_action="Send a new key with a new request; read the earlier outcome at /api/operations/<key>.",
            facts={"operation_id": operation.id},
            code="ks_idempotency_conflict",
        )
    return operation


def accept(
    *, session: Session, kind: OperationKind, queue: str, asked: Asked, parameters: dict[str, Any] | None = None, max_attempts: int = 3
) -> Operation:
    """Write the row and ring, in one transaction with whatever the caller writes.

    Prerequisites: the session's state allows the kind. Raises WrongState or Conflict; then nothing was written.
    """
    require_state(session, kind)
    try:
        with transaction.atomic():
            operation = Operation.objects.create(
                account_id=session.account_id,
                session=session,
                kind=kind,
                parameters=parameters or {},
                queue=queue,
                max_attempts=max_attempts,
                idempotency_key=asked.idempotency_key,
                method=asked.method,
                path=asked.path,
                body_digest=asked.body_digest,
            )
    except IntegrityError as error:
        raise _busy(session, kind) from error
    dispatch.ring(operation)
    return operation


def require_state(session: Session, kind: OperationKind) -> None:
    state = SessionState(session.runtime_state)
    if state in ALLOWED_FROM[kind]:
        return
    facts = {"runtime_state": state.value}
    if state == SessionState.STOPPING:
        raise WrongState("The session is stopping.", next_action="Wait until it is parked, then ask again.", facts=facts, code="ks_stopping")
    if kind in (OperationKind.EXEC, OperationKind.CHECKPOINT):
        raise WrongState(
            f"The session is {state}, not running. Nothing was done and nothing was woken.",
            next_action=f"Resume it first: POST /api/sessions/{session.id}/resume.",
            facts=facts,
            code="ks_session_not_running",
        )
    raise WrongState(f"A {kind} is not possible while the session is {state}. Nothing was done.", facts=facts)


def _busy(session: Session, kind: OperationKind) -> Conflict:
    active = Operation.objects.filter(session=session, state__in=OPERATION_ACTIVE, kind__in=EXCLUSIVE_KINDS).first()
    if active is None:
        return Conflict("Another request with this key or for this session came first. Nothing was done.", next_action="Read it, then ask again.")
    return Conflict(
        f"The session is busy: {active.kind} {active.id} is {active.state}. No {kind} was started.",
        next_action=f"Wait for it: GET /api/operations/{active.id}.",
        facts={"operation_id": active.id, "runtime_state": session.runtime_state},
    )


def find(account: Account, id_or_key: str) -> Operation:
    """By id or by idempotency key, of this account. Raises NotFound."""
    found = Operation.objects.select_related("session").filter(account=account)
    field_name = "id" if id_or_key.startswith("op_") else "idempotency_key"
    operation = found.filter(**{field_name: id_or_key}).first()
    if operation is None:
        raise NotFound("There is no such operation. That does not prove that nothing was done under another key.")
    return operation
