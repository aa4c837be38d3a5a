"""What the gateway erases of a deleted session: its calls with all that was said in them, its ledger, steers, bindings,
egress policy and what it connected to.

Its sums stay, as those of its awake time do: figures, told to the service record. A child of it loses what it could have replayed.
"""

from typing import Any

from django.db.models import QuerySet

from gateway_app.models import Call, EgressLine, EgressPolicy, EgressSum, EpochOrigin, KeyBinding, Steer, UsageEntry, WindowEntry
from sessions_app.models import Account, Session

_CALLS = 50  # in one commit: each may hold a hundred pieces of a MiB
_ROWS = 1000


def erase_session(session: Session) -> dict[str, Any]:
    """Safe to repeat. Returns figures for the service record: how many calls went, and what the machine connected to if that is known."""
    calls = _in_batches(Call.objects.filter(session=session), _CALLS)
    sums = dict(EgressSum.objects.filter(session=session).values("connections", "sent_bytes", "received_bytes").first() or {})
    for model in (UsageEntry, WindowEntry, Steer, KeyBinding, EgressPolicy, EgressSum, EgressLine, EpochOrigin):
        _in_batches(model._default_manager.filter(session=session), _ROWS)
    return {"model_calls": calls, **{f"egress_{name}": figure for name, figure in sums.items()}}


def erase_account(account: Account) -> dict[str, Any]:
    """The secrets of its keys are sealed under the account's key, which is destroyed as well. Safe to repeat."""
    keys = account.provider_keys.all()
    count: int = keys.count()
    keys.delete()
    return {"provider_keys": count}


def deletion_facts(session: Session) -> dict[str, Any]:
    return {"model_calls": Call.objects.filter(session=session).count()}


def _in_batches(rows: "QuerySet[Any]", size: int) -> int:
    erased = 0
    while ids := list(rows.values_list("pk", flat=True)[:size]):
        rows.model._default_manager.filter(pk__in=ids).delete()
        erased += len(ids)
    return erased
