"""Restore: the whole session goes back to a named checkpoint, in a new epoch; nothing that is recorded is rolled back.

  check     the checkpoint is valid, and this host is what it was taken on
  verify    all of its content is verified and assembled, while the machine that there may be runs on
  stop      one commit: what is left is what was consented to, the history reaches the checkpoint, no cancel was asked for; the session is
            taken up, so that no command is accepted any more. Then its machine is ended without a save
  restore   as a resume: a new epoch, the machine, the guest's answer, one commit

A refusal before `stop` touches nothing: a machine that ran runs on. A failure after it leaves the session parked at the head it had. A
death leaves the session as it was, or taken up; the next attempt goes on from there, and ends what the dead one had started, by its epoch.
"""

import time
from typing import Any

from django.db import transaction

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint as checkpoints
from sessions_app.errors import Cancelled, ServiceError
from sessions_app.models import Session, SessionEvent
from sessions_app.services import awake, cancel, operation, reconcile, restore, restore_scope, steps
from sessions_app.services import lease as leases
from sessions_app.services import session as sessions
from sessions_app.states import SessionState
from workers import crash
from workers.host import machines
from workers.host.identity import host_id
from workers.operations import waking
from workers.operations.work import LEFT_TO_THE_NEXT, Work

RESTORING = "session.restoring"
_FROM = [SessionState.PARKED, SessionState.FAILED, SessionState.RECOVERY_REQUIRED, SessionState.RUNNING]
_NOTE = "Nothing was rolled back: later events and checkpoints stay in the records, marked as left. No instruction was held or released."
_CONTINUES = "The machine goes on exactly as it was saved, in a new epoch; whatever acts for an earlier one is refused."


def run(work: Work) -> None:
    """On success: the guest answers, in a new epoch, at the checkpoint. What it raises carries the phases, and how far it came."""
    way = _Way(work)
    try:
        way.go()
    except LEFT_TO_THE_NEXT:
        raise
    except Exception as error:
        told = error.message if isinstance(error, ServiceError) else "The restore failed inside KeepState."
        what = "restore_cancelled" if isinstance(error, Cancelled) else "restore_failed"
        waking.give_back(work, what, told, checkpoint_id=work.operation.parameters["checkpoint_id"])
        if isinstance(error, ServiceError):
            error.facts |= restore.stopped(error, at=way.phase, told=way.told)
            error.facts["runtime_state"] = work.session.runtime_state
        raise


class _Way:
    """`phase` is the one that it is at, `told` what the ones before it came to."""

    def __init__(self, work: Work):
        self.work = work
        self.phase = restore.PHASES[0]
        self.told: dict[str, str] = {}

    def go(self) -> None:
        work, began = self.work, time.perf_counter()
        checkpoint = checkpoints.restorable(work.session, work.operation.parameters["checkpoint_id"])
        waking.require_pin(work, checkpoint)
        self._done("check", "The checkpoint is valid, and this host is what it was taken on.", then="verify")
        waking.wake(
            waking.Waking(
                work,
                checkpoint,
                began,
                event="session.restored",
                ready=lambda: self._stop(checkpoint),
                facts=lambda: _left(work, checkpoint),
                told=self._succeed,
            )
        )

    def _done(self, phase: str, detail: str, *, then: str) -> None:
        """A phase may be gone through again: a cached image that is found damaged is assembled anew."""
        self.told[phase] = detail
        self.phase = then

    def _stop(self, checkpoint: Checkpoint) -> None:
        work = self.work
        self._done("verify", "All of its content was verified.", then="stop")
        before = work.session.runtime_state
        if before == SessionState.RUNNING and machines.machine_of(work.session) is not None:
            awake.prove([work.session.id])  # its time counts up to here
        if before != SessionState.RESUMING:
            _take_up(work, checkpoint)
        crash.reach("restore_taken_up")
        work.keeper.check_lease()
        machines.end_all(work.session.id, until_epoch=work.session.epoch)
        crash.reach("restore_stopped")
        ended = "The machine was ended without a save." if before == SessionState.RUNNING else "No machine of the session runs."
        self._done("stop", ended, then="restore")

    def _succeed(self, figures: dict[str, Any]) -> None:
        self.told[self.phase] = "The guest answers."
        answer = {
            "session_id": self.work.session.id,
            "scope": restore.SCOPE,
            "phases": restore.phases(self.told),
            "stopped_at": None,
            "new_epoch": self.work.session.epoch,
            "superseded_attempts": [],
            "hold_id": None,
            "note": _NOTE,
            "continuation": "exact_runtime",
            "continuation_note": _CONTINUES,
            "stack_compatibility": "compatible",
        }
        self.work.succeed({**figures, **answer, "runtime_state": self.work.session.runtime_state})


def _take_up(work: Work, checkpoint: Checkpoint) -> None:
    """From here on there is no way back to the machine that ran, so all that can refuse has to have its say in this commit."""
    work.keeper.check()
    with transaction.atomic():
        session = operation.lock(work.session)  # before the operation's own row, as a cancel locks them
        leases.require(work.lease)
        if cancel.requested(work.operation.id):
            raise Cancelled("The restore was cancelled.")
        _require_consent(work, session)
        sessions.move(
            session,
            _FROM,
            SessionState.RESUMING,
            source=work.source,
            type_=RESTORING,
            payload={"checkpoint_id": checkpoint.id, "reason": work.operation.parameters["reason"]},
            host_id=host_id(),
            failure=None,
        )
    work.session.refresh_from_db()


def _require_consent(work: Work, session: Session) -> None:
    """Commands may have been accepted since the restore was. Lost history that was consented to is told in the history itself."""
    asked = work.operation.parameters
    point = steps.saved_point.call(session, asked["checkpoint_id"])
    restore_scope.of(session, point).require(asked["accepted"])
    if asked["accepted"] is not None:
        reconcile.fill(session.id, event_watermark=point.event_watermark, source_epoch=point.source_epoch, source=work.source)
        session.refresh_from_db()
    for step in steps.reconcile:
        step(session, point.id)


def _left(work: Work, checkpoint: Checkpoint) -> dict[str, Any]:
    """What the history says of a restore: which lines it left. They reach to the line with which the session was taken up."""
    asked = work.operation.parameters
    own = SessionEvent.objects.filter(session=work.session, type=RESTORING, source=work.source, number__gt=checkpoint.event_watermark)
    return {
        "reason": asked["reason"],
        "event_watermark": checkpoint.event_watermark,
        "left_epoch": asked["epoch"],
        "new_epoch": work.session.epoch,
        "left_events": own.latest("number").number - 1,
    }
