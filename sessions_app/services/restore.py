"""Restore: the whole session goes back to a named checkpoint. Nothing that is recorded is rolled back: it is left, and stays."""

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from sessions_app.errors import Conflict, Invalid, ServiceError
from sessions_app.models import Operation, Session
from sessions_app.services import bounds, operation, placement, restore_scope, revision, steps
from sessions_app.services.operation import Asked
from sessions_app.services.placement import Placement
from sessions_app.states import OperationKind, SessionState

SCOPE = "whole_session"
#: In their order; what they stand for is told by `phases`.
PHASES = ("check", "verify", "stop", "restore")


@dataclass(frozen=True)
class Wanted:
    """What a restore names. `accepted` is the digest of the later work that it may leave."""

    checkpoint_id: str
    reason: str
    expected_revision: int
    epoch: int
    accepted: str | None = None


@transaction.atomic
def ask(session: Session, wanted: Wanted, asked: Asked) -> Operation:
    """Raises Invalid, Conflict (ks_revision_conflict, ks_epoch_mismatch, ks_checkpoint_mismatch), NotFound, NotRestorable, RestoreScope,
    and what a resume of the checkpoint is refused with, before anything is written.
    """
    if not wanted.checkpoint_id:
        raise Invalid("A restore names its checkpoint; none is chosen for you. Nothing was restored.")
    bounds.require_restore_reason(wanted.reason)
    session = operation.lock(session)
    operation.require_state(session, OperationKind.RESTORE)
    revision.require(session, wanted.expected_revision)
    _require_epoch(session, wanted.epoch)
    point = steps.saved_point.call(session, wanted.checkpoint_id)
    scope = restore_scope.of(session, point)
    scope.require(wanted.accepted)
    parameters = {"checkpoint_id": point.id, "reason": wanted.reason.strip(), "epoch": session.epoch}
    return operation.accept(
        session=session,
        kind=OperationKind.RESTORE,
        place=lambda: _placement(session, point.id),
        asked=asked,
        parameters={**parameters, "accepted": scope.digest if scope.items else None},
    )


def _placement(session: Session, checkpoint_id: str) -> Placement:
    """A running machine is ended by its own host, which then resumes the checkpoint."""
    if session.runtime_state == SessionState.RUNNING:
        return placement.on(session.host_id)
    try:
        return steps.place_resume.call(session=session, checkpoint_id=checkpoint_id)
    except ServiceError as error:
        error.facts |= stopped(error, at=PHASES[0])
        raise


def _require_epoch(session: Session, epoch: int) -> None:
    if session.epoch != epoch:
        raise Conflict(
            f"The session is in epoch {session.epoch}; the request was made for {epoch}. Nothing was restored.",
            next_action="Read the session again, then decide again.",
            facts={"execution_epoch": session.epoch, "expected_epoch": epoch},
            code="ks_epoch_mismatch",
        )


def stopped(error: ServiceError, *, at: str, told: dict[str, str] | None = None) -> dict[str, Any]:
    """What a restore that ended in `error` tells beside it: how far it came, and that no work continues from the checkpoint."""
    incompatible = error.word == "ks_stack_incompatible"
    verdict = "incompatible" if incompatible else "compatible" if at != PHASES[0] else "unknown"
    return {
        "phases": phases(told or {}, stopped_at=at, why=f"{error.word}: {error.message}"),
        "stopped_at": at,
        "continuation": "none",
        "continuation_note": "Nothing continues from the checkpoint; it is as it was.",
        "stack_compatibility": verdict,
    }


def phases(told: dict[str, str], *, stopped_at: str | None = None, why: str = "") -> list[dict[str, Any]]:
    """The phases that were reached, each with its detail; the one that it stopped at is not done."""
    rows: list[dict[str, Any]] = []
    for phase in PHASES:
        if phase == stopped_at:
            return [*rows, {"phase": phase, "done": False, "detail": why}]
        rows.append({"phase": phase, "done": True, "detail": told.get(phase, "")})
    return rows
