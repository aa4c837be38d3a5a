"""Delete: from any state, final. The machine is ended, then what only this session held is erased, then the session is gone."""

from django.db.models.functions import Now

from sessions_app.services import session as sessions
from sessions_app.services import steps
from sessions_app.states import SessionState
from workers.host import machines
from workers.operations.work import Work
from workers.restore.images import forget_images

_LIVE = [state for state in SessionState if state not in (SessionState.DELETING, SessionState.DELETED)]


def run(work: Work) -> None:
    """Every step is safe to repeat, so an attempt that died half-way is simply done again.

    Runtime stop and content purge are told apart.
    """
    session = work.session
    if session.runtime_state != SessionState.DELETING:
        with work.fenced():
            sessions.move(session, _LIVE, SessionState.DELETING, source=work.source, type_="session.deleting")
    machines.end_all(session.id, until_epoch=session.epoch)
    work.report(runtime_stop="done")
    forget_images(session)
    erased: dict[str, object] = {}
    for erase in steps.erase:
        erased |= erase(session)
    with work.fenced():
        sessions.move(
            session,
            [SessionState.DELETING],
            SessionState.DELETED,
            source=work.source,
            type_="session.deleted",
            deleted_at=Now(),
            host_id="",
        )
        work.succeed(
            {"id": session.id, "state": session.runtime_state, "deleted": True, "runtime_stop": {"state": "done"}, "content_purge": erased}
        )
