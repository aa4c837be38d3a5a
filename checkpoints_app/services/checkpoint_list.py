"""The list of a session's checkpoints, newest first; failed ones are in it, with their reason."""

from django.db.models import QuerySet

from checkpoints_app.models import Checkpoint
from sessions_app.errors import NotFound
from sessions_app.models import Session
from sessions_app.services import cursor as cursors
from sessions_app.services.cursor import Page


def find(session: Session, checkpoint_id: str, among: "QuerySet[Checkpoint] | None" = None) -> Checkpoint:
    """Of that session, in whatever state; `among` may lock it. Raises NotFound."""
    rows = Checkpoint.objects.all() if among is None else among
    row = rows.filter(session=session, id=checkpoint_id[:40]).first()
    if row is None:
        raise NotFound("The session has no such checkpoint.", next_action=f"List them: GET /api/v2/sessions/{session.id}/checkpoints.")
    return row


def page(session: Session, *, limit: int, cursor: str = "") -> Page[Checkpoint]:
    """At most `limit` checkpoints older than the cursor's. Raises Invalid for a bad cursor."""
    return cursors.newest_first(Checkpoint.objects.filter(session=session), limit=limit, cursor=cursor)
