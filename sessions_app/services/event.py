"""The history of a session: append-only and numbered without gaps."""

from typing import Any

from django.db import connection, transaction

from sessions_app.models import Session, SessionEvent
from sessions_app.services.cursor import Page
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
            "WHERE id = %s RETURNING event_count, epoch",
            [session_id],
        )
        number, epoch = cursor.fetchone()
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


def page(session: Session, *, after: int, limit: int) -> Page[SessionEvent]:
    """At most `limit` events with a number above `after`, oldest first. The cursor is the last number."""
    found = list(SessionEvent.objects.filter(session=session, number__gt=after).order_by("number")[: limit + 1])
    items = found[:limit]
    return Page(items, str(items[-1].number) if len(found) > limit else "")
