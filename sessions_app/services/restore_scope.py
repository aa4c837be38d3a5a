"""What a restore leaves: everything of the session that is later than the checkpoint, exactly, and consent to exactly that."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from sessions_app.errors import RestoreScope
from sessions_app.models import Operation, Session
from sessions_app.services import event, reconcile, steps
from sessions_app.services.steps import LaterWork, SavedPoint
from sessions_app.states import SESSION_LIVE, OperationKind, OperationState

#: Items of each kind that a refusal shows; the counts and the digest are of all.
SHOWN = 50
#: Lines of a history that tell of use of a machine, of which no operation tells.
_USE = ("console.opened", "file.written")
_WORDS = {
    "checkpoint": ("later checkpoint", "later checkpoints"),
    "command": ("command", "commands"),
    "machine": ("running machine's unsaved work", "running machines' unsaved work"),
    "history": ("part of the history that is lost", "parts of the history that are lost"),
}


@dataclass(frozen=True)
class Scope:
    """`items` in the order in which the apps tell them."""

    session_id: str
    point: SavedPoint
    items: list[LaterWork]

    @property
    def digest(self) -> str:
        """Of what is left, however its states have changed meanwhile."""
        named = sorted((one.kind, one.id) for one in self.items)
        return hashlib.sha256(json.dumps([self.session_id, self.point.id, named]).encode()).hexdigest()

    def require(self, accepted: str | None) -> None:
        """Raises RestoreScope unless nothing is left, or what is accepted is exactly what is left."""
        if not self.items or accepted == self.digest:
            return
        counts = Counter(one.kind for one in self.items)
        told = ", ".join(f"{number} {_word(kind, number)}" for kind, number in counts.items())
        other = "That is not what was consented to. " if accepted else ""
        raise RestoreScope(
            f"Work that is later than the checkpoint {self.point.id} would be left: {told}. {other}Nothing was restored. "
            f"The digest of exactly this is {self.digest}.",
            next_action="Read the list; to leave exactly that, ask again with accept_affected_digest.",
            facts={"affected": self.shown(), "affected_counts": dict(counts), "affected_digest": self.digest},
        )

    def shown(self) -> list[dict[str, Any]]:
        shown: Counter[str] = Counter()
        rows = []
        for one in self.items:
            shown[one.kind] += 1
            if shown[one.kind] <= SHOWN:
                rows.append({"kind": one.kind, "id": one.id, **one.facts})
        return rows


def of(session: Session, point: SavedPoint) -> Scope:
    """Prerequisite: the session is locked, so that no command is accepted meanwhile."""
    return Scope(session.id, point, [one for find in steps.later_work for one in find(session, point)])


def commands(session: Session, point: SavedPoint) -> list[LaterWork]:
    """Commands that had not ended when the save began: what they did since is not in the checkpoint."""
    ran = Operation.objects.filter(session=session, kind=OperationKind.EXEC).exclude(state=OperationState.CANCELLED, attempt=0)
    later = ran.filter(Q(finished_at__isnull=True) | Q(finished_at__gt=point.begun_at)).order_by("accepted_at", "id")
    return [
        LaterWork("command", one.id, {"state": one.state, "accepted_at": one.accepted_at.isoformat()})
        for one in later.only("id", "state", "accepted_at")
    ]


def machine(session: Session, point: SavedPoint) -> list[LaterWork]:
    """The machine that runs: it was started since the checkpoint was taken, or somebody has used it in a way that is no command.

    What a program does in it by itself is not seen. A machine that goes on from its own save, and that nobody has touched since, is none.
    """
    if session.runtime_state not in SESSION_LIVE:
        return []
    used = event.span(session.id, after=point.event_watermark, upto=None).filter(type__in=_USE).exists()
    if session.epoch == point.source_epoch and not used:
        return []
    return [LaterWork("machine", f"epoch {session.epoch}", {"execution_epoch": session.epoch})]


def history(session: Session, point: SavedPoint) -> list[LaterWork]:
    return reconcile.lost(session, point)


def _word(kind: str, number: int) -> str:
    one, many = _WORDS.get(kind, (kind, kind))
    return one if number == 1 else many
