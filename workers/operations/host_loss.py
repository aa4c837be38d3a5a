"""A machine that is lost with its host: how a host finds that out of itself, and the words in which its session is told.

A host that is away for long is lost to the fleet (workers/fleet/lost.py). One whose computer restarts faster than that is heard of again
before anybody has missed it, and its machines are gone all the same. The session's row says under which boot of the computer its epoch
began, in the commit that began it and before there was a machine: whatever died since, it is known then.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now

from sessions_app.errors import HostLost
from sessions_app.models import Session
from sessions_app.services import record
from sessions_app.states import RecordKind
from workers.host import machines
from workers.host.identity import boot_id

LOOK = "Read the session: its recovery policy decides whether it goes on by itself."
_LOST = "The host that the session's machine was on is lost."
_RESTARTED = "The computer that the session's machine was on has restarted."


def went_with_its_host(session: Session) -> bool:
    """Whether the session's machine is gone because this host's computer was started anew under it. False for a machine that ended while
    the computer ran on, and where the boot is not known: a release that did not write it down has begun the epoch.
    """
    begun_before = session.machine_boot_epoch == session.epoch and session.machine_boot != boot_id()
    return begun_before and machines.machine_of(session) is None


@dataclass(frozen=True)
class Loss:
    """A session as it was when its host was lost. `checkpoint_seconds`: the age of its last checkpoint, None if it has none."""

    session: Session
    host_id: str
    checkpoint_seconds: int | None
    happened: str = _LOST

    @property
    def facts(self) -> dict[str, Any]:
        """For the session's owner: without the host's name."""
        return {
            "checkpoint_id": self.session.head_checkpoint_id or None,
            "seconds_since_checkpoint": self.checkpoint_seconds,
        }

    @property
    def failure(self) -> HostLost:
        if self.checkpoint_seconds is None:
            return HostLost(
                f"{self.happened} Nothing of the session had been saved.",
                next_action="Delete it with force=1 and start another.",
                facts=self.facts,
            )
        return HostLost(
            f"{self.happened} Its last checkpoint is intact; what the machine did in the {self.checkpoint_seconds} s since is lost.",
            next_action="Resume the session from its last checkpoint.",
            facts=self.facts,
        )

    @property
    def told(self) -> dict[str, Any]:
        """For the session's history."""
        return {"reason": self.failure.message, **self.facts}

    def record(self, actor: str) -> None:
        """Which host it was, for the operator alone. Prerequisite: inside the commit that tells the session of it."""
        told, session = {"host": self.host_id, **self.facts}, self.session
        record.write(RecordKind.LIFECYCLE, "session.taken", account_id=session.account_id, session_id=session.id, actor=actor, facts=told)


def of(session: Session, host_id: str) -> Loss:
    """The fleet lost the host."""
    return Loss(session, host_id, _checkpoint_seconds(session))


def by_restart(session: Session, host_id: str) -> Loss:
    """Its computer was started anew."""
    return Loss(session, host_id, _checkpoint_seconds(session), _RESTARTED)


def _checkpoint_seconds(session: Session) -> int | None:
    age = ExpressionWrapper(Now() - F("head_checkpoint_at"), output_field=DurationField())
    found: timedelta | None = Session.objects.filter(id=session.id).values_list(age, flat=True).get()
    return None if found is None or not session.head_checkpoint_id else int(found.total_seconds())


def save_lost(session: Session) -> HostLost:
    """What a save is told that its host was lost under."""
    previous = "the previous checkpoint is intact" if session.head_checkpoint_id else "there is no earlier one"
    return HostLost(
        f"The host was lost before the save was published. Nothing of it was published; {previous}.",
        next_action=LOOK,
        facts={"checkpoint_recorded": False, "previous_checkpoint_id": session.head_checkpoint_id or None},
    )
