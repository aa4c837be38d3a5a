"""Changes that name what their author had read: a record that has moved on since is not changed."""

from django.db.models import F

from sessions_app.errors import Conflict
from sessions_app.models import Session


def advance(session: Session, expected: int) -> None:
    """The session's next revision. Prerequisite: the session is locked. Raises Conflict, carrying the revision that it has."""
    require(session, expected)
    Session.objects.filter(id=session.id).update(revision=F("revision") + 1)
    session.refresh_from_db(fields=["revision"])


def require(session: Session, expected: int) -> None:
    """The same refusal, for what does not change the revision by itself."""
    if session.revision != expected:
        raise Conflict(
            f"The session is at revision {session.revision}; the request was made for {expected}. Nothing was changed.",
            next_action="Read it again, then decide again.",
            facts={"revision": session.revision, "expected_revision": expected},
            code="ks_revision_conflict",
        )
