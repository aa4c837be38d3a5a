"""Checkpoint: save a running machine, publish, and with `stop` end it after the save is published.

Steps and what a death after each leaves are listed in docs/decisions/0001-the-main-job.md. An attempt begins by looking at what an
earlier one left: published already, or half-done (then the machine is set running and the save starts anew).
"""

import logging
import shutil
from typing import Any

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint as checkpoints
from checkpoints_app.services import publish
from sessions_app.errors import MachineLost, SaveFailed, ServiceError
from sessions_app.models import Session
from sessions_app.services import session as sessions
from sessions_app.services.lease import LeaseLost
from sessions_app.states import SessionState
from workers import crash
from workers.host import machines
from workers.host.identity import staging_directory
from workers.machine.driver import Machine, MachineError
from workers.operations.words import session_words
from workers.operations.work import Work
from workers.save.capture import Saved, save

log = logging.getLogger(__name__)


def run(work: Work) -> None:
    published = checkpoints.published_by(work.operation.id)
    if published is None:
        published = _save(work, _machine(work))
    if work.operation.parameters["stop"]:
        _stop(work, published)


def _machine(work: Work) -> Machine:
    """The machine, alive and running. A session whose machine is gone is failed, and nothing of it was saved."""
    machine = machines.machine_of(work.session)
    if machine is not None:
        machine.run()  # an attempt that died in its stopped window left it paused
        return machine
    lost = MachineLost(
        "The machine's process is gone. Nothing was saved; the last checkpoint is intact.",
        next_action="Resume the session from its last checkpoint.",
        facts=_facts(work.session),
    )
    with work.fenced():
        sessions.move(
            work.session,
            [SessionState.RUNNING, SessionState.CHECKPOINTING],
            SessionState.FAILED,
            source=work.source,
            type_="session.machine_lost",
            failure=lost.as_dict(),
            host_id="",
        )
        checkpoints.fail_unfinished(work.session.id, work.operation.id, lost.as_dict(), source=work.source)
    raise lost


def _save(work: Work, machine: Machine) -> Checkpoint:
    """On failure the machine runs on, the session is `running` again, and the row says why it failed."""
    staging = staging_directory() / f"{work.operation.id}.{work.lease.token}"
    for left in staging_directory().glob(f"{work.operation.id}.*"):
        shutil.rmtree(left, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        checkpoint = _begin(work)
        crash.reach("row_written")
        stop = work.operation.parameters["stop"]
        saved = save(machine, checkpoint, staging, continue_after=not stop, check=work.keeper.check)
        crash.reach("before_publish")
        _publish(work, checkpoint, saved)
        crash.reach("published")
        saved.remember()
        return checkpoint
    except LeaseLost:
        raise
    except Exception as error:
        raise _failed(work, machine, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _begin(work: Work) -> Checkpoint:
    session = work.session
    with work.fenced():
        checkpoints.fail_unfinished(
            session.id, work.operation.id, {"code": "ks_save_failed", "message": "its worker was lost"}, source=work.source
        )
        if session.runtime_state != SessionState.CHECKPOINTING:
            sessions.move(session, [SessionState.RUNNING], SessionState.CHECKPOINTING, source=work.source, type_="session.checkpointing")
        boundary = "stop" if work.operation.parameters["stop"] else "live"
        return checkpoints.begin(session, work.lease, reason=work.operation.parameters["reason"], boundary=boundary)


def _publish(work: Work, checkpoint: Checkpoint, saved: Saved) -> None:
    """Publication, the session's next state and (for a live save) the operation's end are one commit."""
    stop = work.operation.parameters["stop"]
    with work.fenced():
        publish.publish(checkpoint, saved.stored, work.lease, source=work.source)
        work.session.refresh_from_db()
        checkpoint.refresh_from_db()
        after = SessionState.STOPPING if stop else SessionState.RUNNING
        sessions.move(work.session, [SessionState.CHECKPOINTING], after, source=work.source, type_=f"session.{after}")
        if not stop:
            work.succeed(_words(work.session, checkpoint), http_status=200)


def _stop(work: Work, checkpoint: Checkpoint) -> None:
    """End the machine. Prerequisite: published. An attempt that finds the machine gone has only the state left to write."""
    session = work.session
    session.refresh_from_db()
    machines.end_all(session.id)
    with work.fenced():
        sessions.move(
            session,
            [SessionState.STOPPING],
            SessionState.PARKED,
            source=work.source,
            type_="session.parked",
            payload={"reason": "requested"},
            park_reason="requested",
            host_id="",
        )
        work.succeed(_words(session, checkpoint), http_status=200)


def _failed(work: Work, machine: Machine, error: Exception) -> ServiceError:
    """Set the machine running, write the failure where it belongs, and return it as a refusal of the operation."""
    log.warning("save failed", exc_info=error)
    failure: ServiceError = SaveFailed(
        _why(error), next_action=_next(error), facts={**_facts(work.session), "reason": getattr(error, "code", "internal")}
    )
    try:
        machine.run()
        state = SessionState.RUNNING
    except MachineError:
        state = SessionState.FAILED
        failure = MachineLost(
            "The machine ended during the save. Nothing was published; the last checkpoint is intact.",
            next_action="Resume the session from its last checkpoint.",
            facts=_facts(work.session),
        )
    changes: dict[str, Any] = {} if state == SessionState.RUNNING else {"failure": failure.as_dict(), "host_id": ""}
    with work.fenced():
        checkpoints.fail_unfinished(work.session.id, work.operation.id, failure.as_dict(), source=work.source)
        work.session.refresh_from_db()
        sessions.move(work.session, [SessionState.CHECKPOINTING], state, source=work.source, type_=f"session.{state}", **changes)
    failure.facts["runtime_state"] = state.value
    return failure


def _why(error: Exception) -> str:
    if getattr(error, "code", "") == "no_space":
        return (
            "The host or the store has no room for the save. "
            "Nothing was published, the previous checkpoint is intact and the machine runs on."
        )
    what = str(error) if isinstance(error, MachineError | ServiceError) else "the save failed inside KeepState"
    return f"Not saved: {what}. Nothing was published, the previous checkpoint is intact and the machine runs on."


def _next(error: Exception) -> str:
    if getattr(error, "code", "") == "no_space":
        return "Free space (delete sessions that are not needed, or tell the operator), then save again."
    return "Save again; if it repeats, tell the operator this operation's id."


def _facts(session: Session) -> dict[str, object]:
    """What the contract's save errors carry."""
    return {"checkpoint_recorded": False, "previous_checkpoint_id": session.head_checkpoint_id or None}


def _words(session: Session, checkpoint: Checkpoint) -> dict[str, object]:
    return {
        **session_words(session),
        "checkpoint_id": checkpoint.id,
        "content_manifest_hash": checkpoint.content_digest,
        "pause_seconds": checkpoint.pause_seconds,
        "written_bytes": checkpoint.written_bytes,
        "unique_bytes": checkpoint.unique_bytes,
        "stored_bytes": checkpoint.stored_bytes,
    }
