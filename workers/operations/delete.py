"""Delete: the machine is ended, then what only this session held is erased, then the session is gone.

The session is `deleting` already, and whatever else was at work on it is fenced (sessions_app/services/session_deletion.py).
"""

from typing import Any

from django.db.models.functions import Now

from sessions_app.services import record, session_erasure, steps
from sessions_app.services import session as sessions
from sessions_app.states import RecordKind, SessionState
from workers import crash
from workers.host import machines, turn
from workers.host.identity import host_id
from workers.operations.work import Work
from workers.restore.images import forget_images

_AWAY = "Its host was silent. It ends what it still runs as soon as it is back; until then that can save nothing."


def run(work: Work) -> None:
    """Every step is safe to repeat, so an attempt that died half-way is simply done again.

    Runtime stop and content purge are told apart.
    """
    session = work.session

    def end_what_runs() -> None:
        work.keeper.check_lease()
        machines.kill_all(session.id, until_epoch=session.epoch)

    with turn.alone(session.id, wait_seconds=turn.WAIT_SECONDS, meanwhile=end_what_runs):
        machines.end_all(session.id, until_epoch=session.epoch)
        stop = _runtime_stop(work)
        work.report(runtime_stop=stop["state"])
        crash.reach("machine_ended")
        forget_images(session)
        purge = _purge(work)
    crash.reach("content_erased")
    _close(work, stop, purge)


def _runtime_stop(work: Work) -> dict[str, Any]:
    here = work.session.host_id in ("", host_id())
    told = {"operation": work.operation.id, "attempts": work.operation.attempt}
    return {"state": "done" if here else "pending", "detail": "" if here else _AWAY, **told}


def _purge(work: Work) -> dict[str, Any]:
    erased: dict[str, Any] = {}
    for erase in steps.erase:
        erased |= erase(work.session)
        work.keeper.check_lease()
    return {"detail": "", **erased}


def _close(work: Work, stop: dict[str, Any], purge: dict[str, Any]) -> None:
    """One commit: the last traces, the state, the closing event, and the service record's line, which holds figures alone."""
    session = work.session
    with work.fenced():
        session_erasure.close(session, deletion=work.operation)
        sessions.move(
            session,
            [SessionState.DELETING],
            SessionState.DELETED,
            source=work.source,
            type_="session.deleted",
            deleted_at=Now(),
            host_id="",
        )
        figures = {name: value for name, value in purge.items() if isinstance(value, int)}
        record.write(RecordKind.LIFECYCLE, "session.erased", account_id=session.account_id, session_id=session.id, facts=figures)
        assert session.deleted_at is not None
        work.succeed(
            {
                "id": session.id,
                "state": session.runtime_state,
                "deleted": True,
                "executed_at": session.deleted_at.isoformat(),
                "runtime_stop": stop,
                "content_purge": purge,
                "operations_ended": work.operation.parameters.get("superseded"),
            }
        )
