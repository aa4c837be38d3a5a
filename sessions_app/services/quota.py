"""Quotas: what an account may have at most, refused before any work starts.

What is asked for counts from its acceptance on: a queued boot or resume is a machine, the children of a fork that has yet to create them
are sessions and machines. One transaction of an account counts at a time, so two requests at once never take one place. Bytes are known
only when they are stored: a save is refused once the account has as much as it may have; the saves that are under way then go beyond it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from sessions_app.errors import QuotaExceeded
from sessions_app.models import Account, AccountQuota, Operation, Session
from sessions_app.services import record, stored
from sessions_app.services.database import hold
from sessions_app.states import OPERATION_ACTIVE, SESSION_LIVE, OperationKind, RecordKind, SessionState


class Quota(StrEnum):
    SESSIONS = "sessions"
    RUNNING_MACHINES = "running_machines"
    STORED_BYTES = "stored_bytes"


Limits = Mapping[Quota, int | None]

_AWAKE = [*SESSION_LIVE, SessionState.RESUMING]
_STARTS = (OperationKind.BOOT, OperationKind.RESUME, OperationKind.RESTORE)
_WAY_OUT: Mapping[Quota, str] = {
    Quota.SESSIONS: "Delete a session, or ask the operator for more.",
    Quota.RUNNING_MACHINES: "Park a session, or ask the operator for more.",
    Quota.STORED_BYTES: "Delete saved points or sessions, or ask the operator for more.",
}


@dataclass(frozen=True)
class Standing:
    """`limit` null: none. `used` null: not measured yet."""

    quota: Quota
    limit: int | None
    used: int | None


def limits(account_id: str) -> Limits:
    row = AccountQuota.objects.filter(account_id=account_id).first()
    if row is None:
        return {
            Quota.SESSIONS: settings.KEEPSTATE_QUOTA_SESSIONS or None,
            Quota.RUNNING_MACHINES: settings.KEEPSTATE_QUOTA_MACHINES or None,
            Quota.STORED_BYTES: (settings.KEEPSTATE_QUOTA_GIB << 30) or None,
        }
    return {quota: getattr(row, quota) for quota in Quota}


def of_account(account: Account) -> list[Standing]:
    limit = limits(account.id)
    used = {
        Quota.SESSIONS: _sessions(account.id).count() + _children_to_come(account.id),
        Quota.RUNNING_MACHINES: _machines(account.id, but=""),
        Quota.STORED_BYTES: stored.of_account(account.id),
    }
    return [Standing(quota, limit[quota], used[quota]) for quota in Quota]


def admit(session: Session, kind: str, parameters: Mapping[str, Any]) -> None:
    """Of the operation that is to be accepted. Prerequisite: inside the accepting transaction, which has the session's row.

    Raises QuotaExceeded before anything is written. The session's row is locked before the account's count.
    """
    children = int(parameters["children"]) if kind == OperationKind.FORK else 0
    saves = kind == OperationKind.CHECKPOINT or (kind == OperationKind.FORK and not parameters.get("checkpoint_id"))
    _require(session.account_id, sessions=children, machines=children or int(kind in _STARTS), saves=saves, starting=session.id)


def require_session(account_id: str) -> None:
    """Room for one more session. Prerequisite: inside the transaction that writes it. Raises QuotaExceeded."""
    _require(account_id, sessions=1)


@transaction.atomic
def require_start(account_id: str) -> None:
    """Room for one more session and its machine at this moment; nothing is reserved. Raises QuotaExceeded."""
    _require(account_id, sessions=1, machines=1)


def require_import(account_id: str) -> None:
    """Room for a session that arrives with what it stores. Prerequisite: inside a transaction. Raises QuotaExceeded."""
    _require(account_id, sessions=1, saves=True)


@transaction.atomic
def set_limits(account: Account, changes: Limits, *, by: str) -> AccountQuota:
    """Those named; the others stay what they are, also where the defaults change later. What is above a new limit already stays."""
    hold(_lock_of(account.id))
    now = {**limits(account.id), **changes}
    row, _ = AccountQuota.objects.update_or_create(account=account, defaults={quota.value: now[quota] for quota in Quota})
    facts = {quota.value: now[quota] for quota in Quota}
    record.write(RecordKind.OPERATOR, "operator.quota", account_id=account.id, actor=by, facts=facts)
    return row


@transaction.atomic
def use_defaults(account: Account, *, by: str) -> None:
    """The account has the installation's defaults again."""
    hold(_lock_of(account.id))
    AccountQuota.objects.filter(account=account).delete()
    record.write(RecordKind.OPERATOR, "operator.quota", account_id=account.id, actor=by, facts={"defaults": True})


def _lock_of(account_id: str) -> str:
    return f"quota/{account_id}"


def _require(account_id: str, *, sessions: int = 0, machines: int = 0, saves: bool = False, starting: str = "") -> None:
    asked = {Quota.SESSIONS: sessions, Quota.RUNNING_MACHINES: machines, Quota.STORED_BYTES: int(saves)}
    limit = limits(account_id)
    if not any(asked[quota] and limit[quota] is not None for quota in Quota):
        return
    hold(_lock_of(account_id))
    for quota, most in limits(account_id).items():
        if asked[quota] and most is not None:
            used = _used(account_id, quota, most, starting)
            if used + asked[quota] > most:
                raise _exceeded(quota, most, used, asked[quota])


def _used(account_id: str, quota: Quota, most: int, starting: str) -> int:
    """Counted no further than the limit, which is what decides."""
    if quota == Quota.SESSIONS:
        return _sessions(account_id)[: most + 1].count() + _children_to_come(account_id)
    if quota == Quota.RUNNING_MACHINES:
        return _machines(account_id, but=starting)
    known = stored.of_account(account_id)
    return known if known is not None else stored.measure(account_id) or 0


def _sessions(account_id: str) -> QuerySet[Session]:
    return Session.objects.filter(account_id=account_id).exclude(runtime_state=SessionState.DELETED)


def _machines(account_id: str, *, but: str) -> int:
    """That are awake, or asked for; of every session but one."""
    awake = Session.objects.filter(account_id=account_id, runtime_state__in=_AWAKE).exclude(id=but)
    asked = Operation.objects.filter(account_id=account_id, state__in=OPERATION_ACTIVE, kind__in=_STARTS)
    asked = asked.exclude(session__runtime_state__in=_AWAKE).exclude(session_id=but)
    return awake.count() + asked.values("session_id").distinct().count() + _children_to_come(account_id)


def _children_to_come(account_id: str) -> int:
    forks = Operation.objects.filter(account_id=account_id, state__in=OPERATION_ACTIVE, kind=OperationKind.FORK)
    return sum(int(one["children"]) for one in forks.exclude(progress__has_key="children").values_list("parameters", flat=True))


def _exceeded(quota: Quota, limit: int, used: int, asked: int) -> QuotaExceeded:
    words = quota.replace("_", " ")
    wanted = "" if quota == Quota.STORED_BYTES else f", and {asked} more would be needed"
    return QuotaExceeded(
        f"The account's quota of {words} is {limit}: {used} are in use{wanted}. Nothing was started.",
        next_action=_WAY_OUT[quota],
        facts={"quota": quota.value, "limit": limit, "used": used},
    )
