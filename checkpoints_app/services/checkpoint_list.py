"""The list of a session's checkpoints, newest first; failed ones are in it, with their reason."""

from checkpoints_app.models import Checkpoint
from sessions_app.models import Session
from sessions_app.services import cursor as cursors
from sessions_app.services.cursor import Page


def page(session: Session, *, limit: int, cursor: str = "") -> Page[Checkpoint]:
    """At most `limit` checkpoints older than the cursor's. Raises Invalid for a bad cursor."""
    return cursors.newest_first(Checkpoint.objects.filter(session=session), limit=limit, cursor=cursor)
