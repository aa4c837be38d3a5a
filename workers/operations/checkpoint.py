"""Checkpoint: save a running machine, publish, and with `stop` end it after the save is published.

Steps and what a death after each leaves are listed in docs/decisions/0001-the-main-job.md. An attempt begins by looking at what an
earlier one left: published already, or half-done (then the machine is set running and the save starts anew).
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint as checkpoints
from checkpoints_app.services import publish, storage
from checkpoints_app.services.relied import PacksMoved
from sessions_app.errors import Cancelled, HostLost, MachineLost, ServiceError
from sessions_app.services import idle_policy
from sessions_app.services import session as sessions
from sessions_app.services.database import drop_broken_connection
from sessions_app.services.lease import LeaseLost
from sessions_app.states import OperationKind, SessionState
from workers import crash
from workers.cache import known
from workers.host import machines
from workers.host.identity import host_id, staging_directory
from workers.machine.driver import Machine
from workers.operations import host_loss, moving
from workers.operations.ended import how_it_ended
from workers.operations.parking import park_reason
from workers.operations.save_failure import machine_deaf, machine_gone, save_failed
from workers.operations.verification import await_verified
from workers.operations.wake import set_running
from workers.operations.words import save_words
from workers.operations.work import LEFT_TO_THE_NEXT, Work
from workers.save.capture import Saved, save

log = logging.getLogger(__name__)

_STORED_AGAIN = 4  # erasures that cross one save's way; each takes seconds and leaves at its end what the next index is built from


def run(work: Work) -> None:
    published = saved(work)
    if work.operation.parameters["stop"]:
        _stop(work, published)


def saved(work: Work) -> Checkpoint:
    """The checkpoint that this operation publishes, or that an earlier attempt of it has published. `parameters`: stop, reason."""
    return checkpoints.published_by(work.operation.id) or _save(work, _machine(work))


def _machine(work: Work) -> Machine:
    """The machine, alive and running, with all that it was resumed from verified. A session whose machine is gone is failed, and nothing of
    it was saved.
    """
    if host_loss.went_with_its_host(work.session):
        raise _lost_with_host(work)
    trouble = await_verified(work)
    if trouble is not None:
        raise _ended(work, trouble)
    machine = machines.machine_of(work.session)
    if machine is None:
        raise _lost(work)
    with work.fenced(cancellable=False):
        state = set_running(machine)  # an attempt that died in its stopped window left it paused
    if state == SessionState.FAILED:
        raise _lost(work)
    if state != SessionState.RUNNING:
        raise machine_deaf(work.session)
    return machine


def _ended(work: Work, trouble: ServiceError) -> ServiceError:
    """The machine may not go on: it is ended, and its session fails with the reason."""
    machines.end_all(work.session.id, until_epoch=work.session.epoch)
    with work.fenced(cancellable=False):
        if work.session.runtime_state != SessionState.FAILED:
            sessions.move(
                work.session,
                [SessionState.RUNNING, SessionState.CHECKPOINTING],
                SessionState.FAILED,
                source=work.source,
                type_="session.machine_lost",
                payload={"reason": trouble.message},
                failure=trouble.as_dict(),
                host_id="",
            )
    return trouble


def _lost(work: Work) -> MachineLost:
    lost = machine_gone(work.session)
    ended = how_it_ended(work.session, machines.machine_of(work.session))
    _fail_session(work, lost, ended.failure, ended.event, dict(ended.facts))
    return lost


def _lost_with_host(work: Work) -> HostLost:
    lost, loss = host_loss.save_lost(work.session), host_loss.by_restart(work.session, host_id())
    _fail_session(work, lost, loss.failure, "session.host_lost", loss.told, lambda: loss.record(work.source))
    return lost


def _fail_session(
    work: Work, lost: ServiceError, failure: ServiceError, event: str, facts: dict[str, Any], then: Callable[[], None] = lambda: None
) -> None:
    """`lost` is what the save is told, the others what the session is; `then` is done in the commit that tells it."""
    with work.fenced(cancellable=False):
        if work.session.runtime_state != SessionState.FAILED:  # else an earlier attempt has told it
            sessions.move(
                work.session,
                [SessionState.RUNNING, SessionState.CHECKPOINTING],
                SessionState.FAILED,
                source=work.source,
                type_=event,
                payload=facts,
                failure=failure.as_dict(),
                host_id="",
            )
            then()
        checkpoints.fail_unfinished(work.session.id, work.operation.id, lost.as_dict(), source=work.source)


def _save(work: Work, machine: Machine) -> Checkpoint:
    """On failure the machine runs on, the session is `running` again, and the row says why it failed."""
    staging = staging_directory() / f"{work.operation.id}.{work.lease.token}"
    try:
        _empty(staging, work.operation.id)
        checkpoint = _begin(work)
        crash.reach("row_written")
        stop = work.operation.parameters["stop"]
        saved = save(machine, checkpoint, staging, continue_after=not stop, check=work.keeper.check)
        crash.reach("before_publish")
        saved = _published(work, checkpoint, saved)
        crash.reach("published")
        saved.remember()
        known.tell(checkpoint.memory_root)
        return checkpoint
    except LEFT_TO_THE_NEXT:
        raise
    except Exception as error:
        drop_broken_connection()
        published = checkpoints.published_by(work.operation.id)
        if published is None:
            raise _failed(work, machine, error) from error
        log.warning("the save is published, although what followed failed", exc_info=error)
        return published
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _empty(staging: Path, operation_id: str) -> None:
    """Make the directory, and remove what earlier attempts of the operation left beside it."""
    for left in staging.parent.glob(f"{operation_id}.*"):
        shutil.rmtree(left, ignore_errors=True)
    staging.mkdir(parents=True)


def _begin(work: Work) -> Checkpoint:
    session = work.session
    with work.fenced():
        _require_still_wanted(work)
        checkpoints.fail_unfinished(
            session.id, work.operation.id, {"code": "ks_save_failed", "message": "its worker was lost"}, source=work.source
        )
        if session.runtime_state != SessionState.CHECKPOINTING:
            sessions.move(session, [SessionState.RUNNING], SessionState.CHECKPOINTING, source=work.source, type_="session.checkpointing")
        boundary = "stop" if work.operation.parameters["stop"] else "live"
        return checkpoints.begin(session, work.lease, reason=work.operation.parameters["reason"], boundary=boundary)


def _require_still_wanted(work: Work) -> None:
    """A session that was used again since its idle policy asked for its parking is not parked, nor is one moved in which a command runs.

    Raises Cancelled.
    """
    asked = work.operation.parameters
    moving.require_no_command(work)
    if asked.get("by") == "policy" and asked["stop"] and not idle_policy.still_idle(work.session, work.operation):
        raise Cancelled("The session was used again.")


def _published(work: Work, checkpoint: Checkpoint, saved: Saved) -> Saved:
    """Publish what was saved; while packs that it relies on move under it, the capture is stored again, so many times at most.

    Both errors mean that nothing was published, and that these objects never will be.
    """
    attempt = 0
    while True:
        try:
            _publish(work, checkpoint, saved)
            return saved
        except (PacksMoved, LeaseLost) as error:
            storage.discard(checkpoint.account_id, [pack.id for pack in saved.stored.new_packs], saved.stored.manifest_id)
            if isinstance(error, LeaseLost) or attempt == _STORED_AGAIN:
                raise
            log.info("the save is stored again", extra={"attempt": attempt, "reason": str(error)})
        attempt += 1
        saved = saved.again()
        crash.reach("stored_again")


def _publish(work: Work, checkpoint: Checkpoint, saved: Saved) -> None:
    """Publication, the session's next state and (for a live save that is all the operation asks) its end are one commit."""
    stop = work.operation.parameters["stop"]
    with work.fenced():
        publish.publish(checkpoint, saved.stored, work.lease, source=work.source)
        work.session.refresh_from_db()
        checkpoint.refresh_from_db()
        after = SessionState.STOPPING if stop else SessionState.RUNNING
        sessions.move(work.session, [SessionState.CHECKPOINTING], after, source=work.source, type_=f"session.{after}")
        if not stop and work.operation.kind == OperationKind.CHECKPOINT:
            work.succeed(save_words(work.session, checkpoint), http_status=200)


def _stop(work: Work, checkpoint: Checkpoint) -> None:
    """End the machine. Prerequisite: published. An attempt that finds the machine gone has only the state left to write."""
    session = work.session
    work.keeper.check_lease()
    machines.end_all(session.id, until_epoch=checkpoint.source_epoch)
    reason = park_reason(work.operation)
    with work.fenced(cancellable=False):
        session.refresh_from_db()
        sessions.move(
            session,
            [SessionState.STOPPING],
            SessionState.PARKED,
            source=work.source,
            type_="session.parked",
            payload={"reason": reason},
            park_reason=reason,
            host_id="",
        )
        work.succeed(save_words(session, checkpoint), http_status=200)
        moving.go_on(session, work.operation, checkpoint)


def _failed(work: Work, machine: Machine, error: Exception) -> ServiceError:
    """Set the machine running, write the failure where it belongs, and return it as a refusal of the operation."""
    log.warning("save failed", exc_info=error)
    with work.fenced(cancellable=False):
        state = set_running(machine)
        failure = save_failed(work.session, error, state)
        checkpoints.fail_unfinished(work.session.id, work.operation.id, failure.as_dict(), source=work.source)
        work.session.refresh_from_db()
        if work.session.runtime_state == SessionState.CHECKPOINTING != state:
            changes: dict[str, Any] = {"failure": failure.as_dict(), "host_id": ""} if state == SessionState.FAILED else {}
            sessions.move(work.session, [SessionState.CHECKPOINTING], state, source=work.source, type_=f"session.{state}", **changes)
    failure.facts["runtime_state"] = work.session.runtime_state
    return failure
