"""Deleting a session: shown first by a plan, accepted in every state, and final from the moment that it is accepted.

Whatever else is at work on the session is ended in the same commit: its lease is void and the epoch has moved on, so that it publishes
nothing, and a machine that it may have started is ended with the session's others (workers/operations/delete.py).
"""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Coalesce, Now

from sessions_app.errors import Cancelled, Conflict, Invalid, NoCheckpoint
from sessions_app.models import Account, Operation, Plan, Session
from sessions_app.services import held, operation, outcome, placement, plan, record, steps
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.services.placement import Placement
from sessions_app.states import OPERATION_ACTIVE, OperationKind, OperationState, PlanKind, SessionState

#: What is kept of a session, and what not.
RETENTION = {
    "checkpoint_content": "erased",
    "history": "erased, but for the event that tells of the deletion",
    "commands_and_outputs": "erased",
    "model_calls": "erased, but for their sums",
    "name_and_policies": "erased",
    "tombstone": "kept: the session's id, its parent's id, its states and times",
    "service_record": "kept under its own retention, without content",
    "forks": "live on",
}
_FORKS_SHOWN = 20
#: Deletions that one look at an account asks for: its hosts have other work.
_BATCH = 50
#: One that failed, for its store did not answer, is asked for again after this.
_AGAIN = timedelta(seconds=30)
_LIVE = [state for state in SessionState if state not in (SessionState.DELETING, SessionState.DELETED)]
_HAS_NO_MACHINE = frozenset(
    {SessionState.PARKED, SessionState.FAILED, SessionState.RECOVERY_REQUIRED, SessionState.DELETING, SessionState.DELETED}
)


def make_plan(session: Session) -> Plan:
    """What a deletion would erase, end and leave, as it is now. Changes nothing."""
    content = _content(session)
    return plan.make(session.account, PlanKind.SESSION_DELETION, session=session, content=content, basis=_basis(content))


def execute(session: Session, *, plan_id: str, confirm: str | None, asked: Asked) -> Operation:
    """Accept the deletion that was planned. `confirm`, if given, must be the session's id or short id.

    Raises Invalid, NotFound, or Conflict: ks_plan_required, ks_plan_expired, ks_plan_executed, or ks_plan_stale where the session has got
    a checkpoint, a fork or a machine since, which the plan did not show. Then nothing was done.
    """
    if not plan_id:
        raise Conflict(
            "A session is deleted by a plan. Nothing was deleted.",
            next_action=f"POST /api/v2/sessions/{session.id}/deletion-plan, read it, then DELETE with its id as plan_id.",
            code="ks_plan_required",
        )
    if confirm is not None and confirm not in (session.id, session.short_id, session.record_id):
        raise Invalid("What was typed does not name this session. Nothing was deleted.", code="ks_confirmation_mismatch")
    with transaction.atomic():
        row, others = _locked(session)
        plan.take(row.account, PlanKind.SESSION_DELETION, plan_id, session=row, basis=_basis(_content(row)))
        return _accept(row, others, asked)


@transaction.atomic
def ask(session: Session, *, force: bool, asked: Asked) -> Operation:
    """Accept a deletion without a plan. Refused without a checkpoint unless forced, or unless there never was a machine whose work could be
    lost: NoCheckpoint, and nothing was done.
    """
    row, others = _locked(session)
    if not row.head_checkpoint_id and not force and not operation.waits_for_machine(row):
        raise NoCheckpoint(
            "The session has no saved checkpoint: deleting it loses its work. Nothing was deleted. "
            "Save and stop it first, or force it with force=1.",
            next_action=f"POST /api/sessions/{row.id}/checkpoint with Stop, or DELETE /api/sessions/{row.id}?force=1.",
        )
    return _accept(row, others, asked)


def of_account(account: Account) -> int:
    """Ask for the deletion of a few of the account's sessions for which that is not under way. Returns how many sessions are left."""
    left = Session.objects.filter(account=account).exclude(runtime_state=SessionState.DELETED)
    deletions = Operation.objects.filter(account=account, kind=OperationKind.DELETE)
    lately = deletions.filter(Q(state__in=OPERATION_ACTIVE) | Q(finished_at__gt=Now() - _AGAIN))
    for session in left.exclude(id__in=lately.values("session")).order_by("id")[:_BATCH]:
        ask(session, force=True, asked=Asked())
    return left.count()


def _locked(session: Session) -> tuple[Session, list[Operation]]:
    """The session and what is at work on it, held. Raises NotFound if it was deleted meanwhile."""
    try:
        return held.with_work(session)
    except held.NeverStill:
        raise Conflict("Other work is asked of the session again and again. Nothing was deleted.", next_action="Ask again.") from None


def _accept(session: Session, others: list[Operation], asked: Asked) -> Operation:
    """Prerequisite: both are locked. A deletion that is under way already refuses: Conflict, naming it."""
    ended = [one for one in others if one.kind != OperationKind.DELETE]
    for one in ended:
        _end(one)
    record.ended([one.id for one in ended])
    if session.runtime_state != SessionState.DELETING:
        sessions.move(session, _LIVE, SessionState.DELETING, source="api", type_="session.deleting", epoch=F("epoch") + 1)
    return operation.accept(
        session=session, kind=OperationKind.DELETE, place=lambda: _placement(session), asked=asked, parameters={"superseded": len(ended)}
    )


def _end(other: Operation) -> None:
    """It ends here and now; its worker, if it has one, hears of it and finds its lease void."""
    error = Cancelled(outcome.superseded(other.kind, begun=other.attempt > 0), facts={"runtime_state": SessionState.DELETING})
    Operation.objects.filter(id=other.id, state__in=OPERATION_ACTIVE).update(
        state=OperationState.CANCELLED,
        error=error.as_dict(),
        http_status=error.status,
        finished_at=Now(),
        cancel_requested_at=Coalesce("cancel_requested_at", Now()),
        lease_token=None,
        lease_owner="",
        lease_expires_at=None,
    )


def _placement(session: Session) -> Placement:
    """Its host's; where that one is silent, anybody's: what it still runs can reach nothing, and is ended when it is back."""
    there = bool(session.host_id) and steps.host_answers.call(session.host_id)
    return placement.on(session.host_id) if there else placement.anywhere()


def _content(session: Session) -> dict[str, Any]:
    forks = Session.objects.filter(parent_id=session.id).exclude(runtime_state=SessionState.DELETED)
    shown = list(forks.order_by("id").values_list("id", flat=True)[: _FORKS_SHOWN + 1])
    content: dict[str, Any] = {
        "session_id": session.id,
        "running_machine": session.runtime_state not in _HAS_NO_MACHINE and not operation.waits_for_machine(session),
        "runtime_state": session.runtime_state,
        "history_events": session.event_count,
        "forks": {"count": len(shown) if len(shown) <= _FORKS_SHOWN else forks.count(), "ids": shown[:_FORKS_SHOWN]},
        "retention": RETENTION,
    }
    for facts in steps.deletion_facts:
        content |= facts(session)
    return content


def _basis(content: dict[str, Any]) -> dict[str, Any]:
    """What must not have grown since it was shown. A state, a revision or an event may: a busy session can be deleted."""
    return {
        "checkpoints": content.get("checkpoints"),
        "newest_checkpoint_id": content.get("newest_checkpoint_id"),
        "forks": content["forks"]["count"],
        "running_machine": content["running_machine"],
    }
