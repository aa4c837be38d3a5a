"""What a policy would do now, shown before it is set: every valid point with what keeps it, or that it expires. Nothing is changed.

A policy takes effect only by the plan of such a preview (services/plan.py). Of a session the plan binds what expires, point by point; of an
account, whose sessions go on being saved meanwhile, the rules and the policy's revision.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from checkpoints_app.models import Checkpoint
from checkpoints_app.services.retention import valid
from checkpoints_app.services.retention_choice import choose
from sessions_app.errors import Conflict, Invalid
from sessions_app.models import Account, Plan, Session
from sessions_app.services import cursor as cursors
from sessions_app.services import plan, retention
from sessions_app.services.retention import Rules
from sessions_app.states import PlanKind, SessionState

#: Sessions that one page of an account's preview looks into at most.
SESSIONS = 200
_GONE = (SessionState.DELETING, SessionState.DELETED)


@dataclass(frozen=True)
class Fate:
    checkpoint: Checkpoint
    kept_by: tuple[str, ...]  # empty: it expires


@dataclass(frozen=True)
class Preview:
    """A page of it. The counts are of all pages, and null where this page is not all; so is the plan, but for the first page."""

    items: list[Fate]
    next_cursor: str
    revision: int
    plan: Plan | None
    expire_count: int | None
    keep_count: int | None


def of_session(session: Session, rules: Rules, *, limit: int, cursor: str = "") -> Preview:
    """Raises Invalid for a bad cursor."""
    fates = _fates(session, rules)
    policy = retention.find(session.account, session)
    expiring = [fate.checkpoint.id for fate in fates if not fate.kept_by]
    made = None if cursor else _plan(session.account, session, rules, _basis(policy.revision, expiring))
    left = [fate for fate in fates if _after(fate, cursor)]
    return Preview(left[:limit], _cursor_of(left, limit), policy.revision, made, len(expiring), len(fates) - len(expiring))


def of_account(account: Account, rules: Rules, *, limit: int, cursor: str = "") -> Preview:
    """Sessions with a policy of their own are not in it. Sessions in the order of their ids, points newest first."""
    policy = retention.find(account)
    looked_into, items, more = list[Session](), list[Fate](), ""
    for session in islice(_sessions(account, cursor), SESSIONS + 1):
        if len(looked_into) == SESSIONS:
            more = _encode(looked_into[-1], None)
            break
        looked_into.append(session)
        left = [fate for fate in _fates(session, rules) if _after(fate, cursor)]
        room = limit - len(items)
        items += left[:room]
        if len(left) > room:
            more = _encode(session, items[-1].checkpoint)
            break
    made = None if cursor else _plan(account, None, rules, _basis(policy.revision, None))
    whole = not cursor and not more
    expire = sum(not fate.kept_by for fate in items)
    return Preview(items, more, policy.revision, made, expire if whole else None, len(items) - expire if whole else None)


def consent_of(account: Account, session: Session | None, plan_id: str | None, digest: str | None) -> Callable[[Rules, int], None]:
    """What `retention.change` asks before anything may expire: the plan, executed.

    Raises Conflict if these rules were not shown, or if of a session other points expire now than were shown.
    """

    def consent(rules: Rules, revision: int) -> None:
        if not plan_id or not digest:
            raise Conflict(
                "Saved points may expire by this, and it was not shown before. Nothing was changed.",
                next_action="Preview it: POST .../retention/preview, then send its plan_id and plan_digest.",
                code="ks_plan_required",
            )
        expiring = None if session is None else [fate.checkpoint.id for fate in _fates(session, rules) if not fate.kept_by]
        taken = plan.take(account, PlanKind.RETENTION, plan_id, session=session, basis=_basis(revision, expiring), plan_digest=digest)
        if taken.content != _content(rules):
            raise Conflict(
                "The plan is of other rules. Nothing was changed.",
                next_action="Preview these rules, then set them.",
                facts={"plan_id": plan_id},
                code="ks_plan_digest_mismatch",
            )

    return consent


def _fates(session: Session, rules: Rules) -> list[Fate]:
    rows = valid(session)
    if not rules.enabled:
        return [Fate(row, ("enabled",)) for _, row in rows]
    kept = choose([point for point, _ in rows], rules)
    return [Fate(row, kept[point.id]) for point, row in rows]


def _plan(account: Account, session: Session | None, rules: Rules, basis: dict[str, Any]) -> Plan:
    return plan.make(account, PlanKind.RETENTION, session=session, content=_content(rules), basis=basis)


def _content(rules: Rules) -> dict[str, Any]:
    return {"rules": asdict(rules)}


def _basis(revision: int, expiring: list[str] | None) -> dict[str, Any]:
    """`expiring` is not written out: a session may have many points, and a stale plan is only ever made anew."""
    shown = None if expiring is None else hashlib.sha256("\n".join(sorted(expiring)).encode()).hexdigest()
    return {"revision": revision, "expiring": shown}


def _sessions(account: Account, cursor: str) -> Iterator[Session]:
    rows = Session.objects.filter(account=account).exclude(runtime_state__in=_GONE).exclude(retention_policy__active=True).order_by("id")
    if cursor:
        session_id, point = _decode(cursor)
        rows = rows.filter(id__gte=session_id) if point else rows.filter(id__gt=session_id)
    return rows.iterator(chunk_size=SESSIONS)


def _after(fate: Fate, cursor: str) -> bool:
    """Whether the point comes after the cursor's, in the order of the pages."""
    if not cursor:
        return True
    row = fate.checkpoint
    session_id, point = _decode(cursor)
    if row.session_id != session_id or point is None:
        return row.session_id > session_id
    return bool((row.created_at, row.id) < point)


def _cursor_of(left: list[Fate], limit: int) -> str:
    return _encode(left[0].checkpoint.session_id, left[limit - 1].checkpoint) if len(left) > limit else ""


def _encode(session: Session | str, row: Checkpoint | None) -> str:
    session_id = session if isinstance(session, str) else session.id
    return f"{session_id}.{cursors.encode(row.created_at, row.id) if row else ''}"


def _decode(cursor: str) -> tuple[str, Any]:
    session_id, dot, rest = cursor.partition(".")
    if not (dot and session_id.isascii() and session_id.isalnum() and len(session_id) <= 32):
        raise Invalid("The cursor is not one that a list gave.", next_action="Begin again without a cursor.")
    return session_id, cursors.decode(rest) if rest else None
