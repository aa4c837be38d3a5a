"""Retention policies: none by default; a session's own stands instead of its account's. What they choose is decided where points are known.

A policy's counts are of saved points, so nothing expires by time alone: a session is looked at again when it has a new point, when a point
of it lost what kept it, and when its policy has changed.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Now

from sessions_app.errors import Conflict
from sessions_app.models import Account, RetentionPolicy, Session
from sessions_app.services import bounds, event, operation
from sessions_app.services.database import hold

_DUE = """
INSERT INTO sessions_app_retentiondue (session_id, due_at)
SELECT id, statement_timestamp() FROM sessions_app_session AS session WHERE {which} AND head_checkpoint_id <> '' AND EXISTS (
  SELECT 1 FROM sessions_app_retentionpolicy AS policy WHERE policy.account_id = session.account_id AND active AND enabled
) ON CONFLICT (session_id) DO NOTHING
"""


@dataclass(frozen=True)
class Rules:
    """`keep_named`: named points stay beside the counts; without it they stay too, but take a place in them like any other."""

    keep_last: int = 0
    keep_hourly: int = 0
    keep_daily: int = 0
    keep_weekly: int = 0
    keep_named: bool = True
    enabled: bool = True

    @property
    def counts(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if name.startswith("keep_") and name != "keep_named"}


def rules_of(policy: RetentionPolicy) -> Rules:
    return Rules(**{name: getattr(policy, name) for name in asdict(Rules())})


def find(account: Account, session: Session | None = None) -> RetentionPolicy:
    """The account's own row, or the session's own; of one that never was, an unsaved row of revision 0."""
    return RetentionPolicy.objects.filter(account=account, session=session).first() or RetentionPolicy(account=account, session=session)


def effective(session: Session, *, locked: bool = False) -> Rules | None:
    """What decides over the session's points; None: everything is kept. `locked`: the rows stay as they are until the transaction's end."""
    rows = RetentionPolicy.objects.filter(Q(session=session) | Q(session__isnull=True), account_id=session.account_id).order_by("id")
    found = {row.session_id: row for row in (rows.select_for_update(no_key=True) if locked else rows) if row.active}
    policy = found.get(session.id) or found.get(None)
    return rules_of(policy) if policy is not None and policy.enabled else None


@transaction.atomic
def change(
    account: Account, session: Session | None, wanted: Rules | None, *, expected_revision: int, consent: Callable[[Rules, int], None]
) -> RetentionPolicy:
    """Set the policy, or with None take it away. What is so already is not changed, whatever revision the request names.

    `consent` is asked before anything may expire that did not before, with the rules that will decide then and the policy's revision; it
    raises if they were not shown. Raises Invalid, or Conflict with ks_revision_conflict.
    """
    if session is not None:
        session = operation.lock(session)
    hold(f"retention/{account.id}")
    policy = find(account, session)
    if wanted == (rules_of(policy) if policy.active else None):
        return policy
    if wanted is not None and wanted.enabled:
        bounds.require_retention(wanted.counts)
    _require_revision(policy, expected_revision)
    deciding = wanted or (_of_account(account) if session is not None else None)
    if deciding is not None and deciding.enabled:
        consent(deciding, policy.revision)
    for name, value in asdict(wanted or rules_of(policy)).items():
        setattr(policy, name, value)
    policy.active, policy.revision = wanted is not None, policy.revision + 1
    policy.save()
    RetentionPolicy.objects.filter(id=policy.id).update(changed_at=Now())
    if session is not None:
        event.append(session.id, "session.retention_policy", asdict(wanted) if wanted else {"inherits": True}, source="api")
        mark_due(session.id)
    else:
        _mark_all_due(account.id)
    policy.refresh_from_db()
    return policy


def _require_revision(policy: RetentionPolicy, expected: int) -> None:
    if policy.revision != expected:
        raise Conflict(
            f"The policy is at revision {policy.revision}; the request was made for {expected}. Nothing was changed.",
            next_action="Read it again, then decide again.",
            facts={"revision": policy.revision, "expected_revision": expected},
            code="ks_revision_conflict",
        )


def _of_account(account: Account) -> Rules | None:
    policy = find(account)
    return rules_of(policy) if policy.active else None


def mark_due(session_id: str) -> None:
    """Something that a policy would look at has changed; nothing happens where there is none. Prerequisite: the session's row is locked."""
    _execute("session.id = %s", session_id)


def _mark_all_due(account_id: str) -> None:
    _execute("session.account_id = %s AND runtime_state NOT IN ('deleting', 'deleted')", account_id)


def _execute(which: str, value: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_DUE.format(which=which), [value])
