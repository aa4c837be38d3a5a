"""The list of a session's checkpoints, newest first; failed ones are in it, with their reason."""

from django.db.models import Q

from checkpoints_app.models import Checkpoint
from sessions_app.models import Session
from sessions_app.services import cursor as cursors
from sessions_app.services.cursor import Page


def page(session: Session, *, limit: int, cursor: str = "") -> Page[Checkpoint]:
    """At most `limit` checkpoints older than the cursor's. Raises Invalid for a bad cursor."""
    checkpoints = Checkpoint.objects.filter(session=session)
    if cursor:
        moment, row_id = cursors.decode(cursor)
        checkpoints = checkpoints.filter(created_at__lte=moment).filter(Q(created_at__lt=moment) | Q(id__lt=row_id))
    found = list(checkpoints.order_by("-created_at", "-id")[: limit + 1])
    items = found[:limit]
    return Page(items, cursors.encode(items[-1].created_at, items[-1].id) if len(found) > limit else "")
