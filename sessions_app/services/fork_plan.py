"""Forks by plan: what a fork would make is shown first, and only its digest makes exactly that, while the session has not moved."""

from typing import Any

from django.db import transaction

from sessions_app.errors import Conflict
from sessions_app.models import Operation, Plan, Session
from sessions_app.services import bounds, fork, operation, plan, steps
from sessions_app.services.operation import Asked
from sessions_app.services.steps import SavedPoint
from sessions_app.states import OperationKind, PlanKind

NOTE = "Each child is a session of its own, metered alone; deleting its parent or a sibling does not touch it."


@transaction.atomic
def make(session: Session, *, checkpoint_id: str, children: int) -> Plan:
    """Creates nothing but the plan. Raises Invalid, NotFound, WrongState, Conflict (ks_checkpoint_mismatch) or NotRestorable."""
    bounds.require_children(children)
    session = operation.lock(session)
    operation.require_state(session, OperationKind.FORK)
    point = steps.saved_point.call(session, checkpoint_id)
    keys = _keys(session)
    content = {"checkpoint_id": point.id, "children": children, "plan": _shown(session, point, children, keys)}
    return plan.make(session.account, PlanKind.FORK, session=session, content=content, basis=_basis(session, point, keys))


@transaction.atomic
def execute(session: Session, *, plan_id: str, plan_digest: str, asked: Asked) -> Operation:
    """Ask for exactly what the plan showed. Raises what `plan.take` and `fork.ask` raise; then nothing was created."""
    if not plan_id or not plan_digest:
        raise Conflict(
            "A fork is executed by its plan: plan_id and plan_digest are both needed. Nothing was forked.",
            next_action=f"Plan it first: POST /api/v2/sessions/{session.id}/fork-plan.",
            code="ks_plan_required",
        )
    session = operation.lock(session)
    shown = plan.find(session.account, PlanKind.FORK, plan_id, session=session).content
    point = steps.saved_point.call(session, shown["checkpoint_id"])
    plan.take(
        session.account, PlanKind.FORK, plan_id, session=session, basis=_basis(session, point, _keys(session)), plan_digest=plan_digest
    )
    return fork.ask(session, children=shown["children"], checkpoint_id=point.id, plan_id=plan_id, asked=asked)


def _keys(session: Session) -> dict[str, str]:
    """By provider, the key that a child would be bound to: one that is disabled is passed on to nobody."""
    return {bound.provider: bound.key_id for bound in steps.bound_keys.call([session.id]).get(session.id, []) if bound.usable}


def _basis(session: Session, point: SavedPoint, keys: dict[str, str]) -> dict[str, Any]:
    return {"revision": session.revision, "checkpoint_id": point.id, "content_digest": point.content_digest, "keys": keys}


def _shown(session: Session, point: SavedPoint, children: int, keys: dict[str, str]) -> dict[str, Any]:
    """The contract's sections. What this version has none of is said, not left out."""
    return {
        "source": {
            "session_id": session.id,
            "revision": session.revision,
            "checkpoint_id": point.id,
            "content_digest": point.content_digest,
            "saved_at": point.published_at.isoformat(),
            "source_epoch": point.source_epoch,
            "event_watermark": point.event_watermark,
            "reason": point.reason or None,
        },
        "children": {"count": children, "effect": NOTE},
        "runtime": {
            "memory_bytes_each": session.memory_bytes,
            "cpus_each": session.cpus,
            "budget_tokens_each": session.budget_tokens,
            "saved_bytes_each": point.logical_bytes,
            "effect": "Each child runs as soon as a host takes it. What it is saved with is shared with its parent until it differs.",
        },
        "keys": {"bindings": keys, "effect": "Each child is bound to these keys, as far as they are enabled when it is made."},
        "pending": {"held_templates": 0, "effect": "There are no pending instructions to carry."},
        "approvals": {"inherited": 0, "effect": "Approvals are not inherited."},
        "advisers": {"inherited": 0, "effect": "Connections of advisers are not inherited."},
        "selection": "Exactly the checkpoint's machine: memory, disk and devices. What came after it is in no child.",
    }
