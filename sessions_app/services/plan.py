"""Plans: a consequential act is shown first, and executed only by what was shown, while it is still true."""

import hashlib
import json
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from sessions_app.errors import Conflict, NotFound
from sessions_app.ids import new_plan_id
from sessions_app.models import Account, Plan, Session
from sessions_app.states import PlanKind

LIFE = timedelta(minutes=15)
_PREFIXES = {
    PlanKind.FORK: "fplan",
    PlanKind.SESSION_DELETION: "dplan",
    PlanKind.ACCOUNT_DELETION: "aplan",
    PlanKind.RETENTION: "rplan",
    PlanKind.KEY_DELETION: "kplan",
}
_AGAIN = "Make a new plan, read it, then decide again."


def make(account: Account, kind: PlanKind, *, session: Session | None, content: dict[str, Any], basis: dict[str, Any]) -> Plan:
    """Write what was shown down; nothing else is changed. `basis` holds what must still be true at the execution."""
    plan = Plan.objects.create(
        id=new_plan_id(_PREFIXES[kind]),
        account=account,
        session=session,
        kind=kind,
        content=content,
        basis=basis,
        digest=digest(kind, content, basis),
        expires_at=Now() + LIFE,
    )
    plan.refresh_from_db()
    return plan


def digest(kind: PlanKind, content: dict[str, Any], basis: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([kind, content, basis], sort_keys=True).encode()).hexdigest()


def take(
    account: Account, kind: PlanKind, plan_id: str, *, session: Session | None, basis: dict[str, Any], plan_digest: str | None = None
) -> Plan:
    """The plan, marked executed. Prerequisite: inside the transaction of the execution, with whatever `basis` reads locked.

    `basis` is what is true now, `plan_digest` what the client consents to (None where the route consents by the plan's id alone).
    Raises NotFound, or Conflict with ks_plan_digest_mismatch, ks_plan_executed, ks_plan_expired or ks_plan_stale; then nothing was done.
    """
    plan = find(account, kind, plan_id, session=session)
    if plan_digest is not None and plan_digest != plan.digest:
        raise _refused(plan, "ks_plan_digest_mismatch", "The digest is not this plan's.")
    if plan.executed_at is not None:
        raise _refused(plan, "ks_plan_executed", "This plan was executed already.")
    if not Plan.objects.filter(id=plan.id, expires_at__gt=Now()).exists():
        raise _refused(plan, "ks_plan_expired", f"This plan expired at {plan.expires_at.isoformat()}.")
    if basis != plan.basis:
        moved = {name: {"planned": plan.basis.get(name), "now": basis.get(name)} for name in basis if basis[name] != plan.basis.get(name)}
        told = ", ".join(f"{name} {one['now']}, planned at {one['planned']}" for name, one in moved.items())
        raise _refused(plan, "ks_plan_stale", f"What was planned has moved: {told}.", moved=moved)
    Plan.objects.filter(id=plan.id).update(executed_at=Now())
    plan.refresh_from_db(fields=["executed_at"])
    return plan


def find(account: Account, kind: PlanKind, plan_id: str, *, session: Session | None) -> Plan:
    """The plan, locked. Prerequisite: inside a transaction. Raises NotFound."""
    plan = Plan.objects.select_for_update().filter(account=account, session=session, kind=kind, id=plan_id[:40]).first()
    if plan is None:
        raise NotFound("There is no such plan. Nothing was done.", next_action=_AGAIN)
    return plan


def _refused(plan: Plan, code: str, why: str, **facts: Any) -> Conflict:
    return Conflict(f"{why} Nothing was done.", next_action=_AGAIN, facts={"plan_id": plan.id, **facts}, code=code)


def forget_expired() -> int:
    """Plans that expired a day ago. Returns how many."""
    return Plan.objects.filter(expires_at__lt=Now() - timedelta(days=1)).delete()[0]
