"""What this app erases of a deleted session: its history but for the closing event, what was said in its operations, its policies, plans
and name. Left is a tombstone: ids, kinds, states and times.
"""

from typing import Any

from django.db.models import Model, QuerySet

from sessions_app.models import (
    IdlePolicy,
    Operation,
    Plan,
    RecoveryPolicy,
    RetentionDue,
    RetentionPolicy,
    SavePolicy,
    Session,
    SessionEvent,
)

_BATCH = 2000  # rows that one commit erases: a long history must not hold its locks for long
#: What an operation says, and nothing of what it is.
_SILENT: dict[str, Any] = {"parameters": {}, "progress": {}, "response": None, "error": None, "path": "", "body_digest": ""}


def erase(session: Session) -> dict[str, Any]:
    """Prerequisite: the session is `deleting`, and nothing else is at work on it. Safe to repeat. Returns how many events went."""
    events = _in_batches(SessionEvent.objects.filter(session=session))
    for model in (SavePolicy, IdlePolicy, RecoveryPolicy, RetentionPolicy, RetentionDue, Plan):
        _in_batches(model._default_manager.filter(session=session))
    return {"history_events": events}


def close(session: Session, *, deletion: Operation) -> None:
    """What may have been written since `erase`, and what stands in rows that stay. Prerequisite: inside the last commit of the deletion,
    before its closing event; `deletion` keeps its own words.
    """
    SessionEvent.objects.filter(session=session).delete()
    Plan.objects.filter(session=session).delete()
    Operation.objects.filter(session=session).exclude(id=deletion.id).update(**_SILENT)
    Session.objects.filter(id=session.id).update(name="", failure=None)


def _in_batches(rows: "QuerySet[Any]") -> int:
    model: type[Model] = rows.model
    erased = 0
    while ids := list(rows.values_list("pk", flat=True)[:_BATCH]):
        erased += model._default_manager.filter(pk__in=ids).delete()[0]
    return erased
