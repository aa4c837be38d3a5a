"""The list of an account's sessions, newest activity first."""

from django.db.models import Q

from sessions_app.models import Account, Session
from sessions_app.services import cursor as cursors
from sessions_app.services.cursor import Page
from sessions_app.states import SessionState


def page(account: Account, *, limit: int, cursor: str = "", state: SessionState | None = None, deleted_too: bool = False) -> Page[Session]:
    """At most `limit` sessions after the cursor. Deleted ones appear if asked for, or if their state is.

    The order is of activity, which goes on while a client turns pages: a session that becomes active meanwhile moves to the front, behind a
    reader who has passed it. Raises Invalid for a bad cursor.
    """
    sessions = Session.objects.filter(account=account)
    if state is not None:
        sessions = sessions.filter(runtime_state=state)
    elif not deleted_too:
        sessions = sessions.exclude(runtime_state=SessionState.DELETED)
    if cursor:
        moment, row_id = cursors.decode(cursor)
        # the first condition lets the index begin at the cursor; the second orders equal moments
        sessions = sessions.filter(last_activity_at__lte=moment).filter(Q(last_activity_at__lt=moment) | Q(id__lt=row_id))
    found = list(sessions.order_by("-last_activity_at", "-id")[: limit + 1])
    items = found[:limit]
    return Page(items, cursors.encode(items[-1].last_activity_at, items[-1].id) if len(found) > limit else "")
