"""The history of a session: append-only and numbered without gaps.

A trigger refuses to change a line, and to delete one of a session that is not being deleted. It holds against every query of ours; whoever
owns the database can switch it off.
"""

from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet

from sessions_app.models import Session, SessionEvent
from sessions_app.services.cursor import Page
from sessions_app.services.following import CHANNEL
from sessions_app.services.webhooks import outbox


def append(
    session_id: str, type_: str, payload: dict[str, Any] | None = None, *, source: str, subject: tuple[str, str] | None = None
) -> SessionEvent:
    """Prerequisite: inside the transaction of what the event tells, so that neither exists without the other.

    The number comes from the session's row, whose lock orders concurrent writers; a rollback gives the number back.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("an event is appended only in the transaction of what it tells")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sessions_app_session SET event_count = event_count + 1, last_activity_at = clock_timestamp() "
            "WHERE id = %s RETURNING event_count, epoch, pg_notify(%s, id)",  # heard at the commit, by whoever follows
            [session_id, CHANNEL],
        )
        number, epoch, _ = cursor.fetchone()
    subject_type, subject_id = subject or ("session", session_id)
    appended = SessionEvent.objects.create(
        session_id=session_id,
        number=number,
        epoch=epoch,
        type=type_,
        source=source,
        subject_type=subject_type,
        subject_id=subject_id,
        payload={"type": type_, **(payload or {})},
    )
    outbox.tell(appended)
    return appended


def span(session_id: str, *, after: int, upto: int | None) -> QuerySet[SessionEvent]:
    """The events numbered above `after`, to `upto` or to the end, oldest first."""
    found = SessionEvent.objects.filter(session_id=session_id, number__gt=after).order_by("number")
    return found if upto is None else found.filter(number__lte=upto)


def page(session: Session, *, after: int, limit: int) -> Page[SessionEvent]:
    """At most `limit` events with a number above `after`, oldest first. The cursor is the last number."""
    found = list(span(session.id, after=after, upto=None)[: limit + 1])
    items = found[:limit]
    return Page(items, str(items[-1].number) if len(found) > limit else "")
