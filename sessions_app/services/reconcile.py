"""Before saved work continues: the history reaches as far as the checkpoint says that it did when it was taken.

It does not after a database was restored from a backup that is older than the checkpoint, and the checkpoint came back from the store. The
lines between are lost. Whoever goes on from that checkpoint all the same consents to it, and the history then says so itself: each
lost number gets a line `history.lost`, so that numbers stay without gaps and nobody takes a later line for a lost one.
"""

from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models.functions import Greatest

from sessions_app.errors import RecoveryRequired
from sessions_app.models import Session
from sessions_app.services import steps
from sessions_app.services.steps import LaterWork, SavedPoint

LOST = "history.lost"
#: More lost lines than these are not a history that somebody could have consented to lose.
LOST_LINES = 1_000_000

_FILL = """
INSERT INTO sessions_app_sessionevent (id, session_id, number, epoch, type, source, subject_type, subject_id, payload)
SELECT 'ev_' || left(replace(gen_random_uuid()::text, '-', ''), 24), %(session)s, number, %(epoch)s, %(type)s, %(source)s,
       'session', %(session)s, jsonb_build_object('type', %(type)s::text)
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number
"""


@dataclass(frozen=True)
class Beyond:
    """How far a checkpoint lies beyond what the database knows of its session; both 0 where it agrees."""

    events: int
    epochs: int

    def __bool__(self) -> bool:
        return bool(self.events or self.epochs)


def beyond(*, event_watermark: int, source_epoch: int, event_count: int, epoch: int) -> Beyond:
    return Beyond(max(0, event_watermark - event_count), max(0, source_epoch - epoch))


def reconcile(session: Session, checkpoint_id: str) -> None:
    """The step of this app. Raises RecoveryRequired, saying what the database does not know; then nothing was done."""
    point = steps.saved_point.call(session, checkpoint_id)
    session.refresh_from_db(fields=["event_count", "epoch"])
    lost = _beyond(session, point)
    if lost:
        facts = _facts(session, point)
        raise RecoveryRequired(
            f"The checkpoint {point.id} was taken at event {point.event_watermark} of epoch {point.source_epoch}; this database knows the "
            f"session to event {session.event_count} of epoch {session.epoch}. It is likely to be older than the checkpoint. "
            "Nothing was started.",
            next_action="Restore from a checkpoint that the history reaches, or ask for a restore of this one: its refusal lists what is "
            f"lost, and consenting to that goes on: POST /api/v2/sessions/{session.id}/restore.",
            facts=facts,
        )


def lost(session: Session, point: SavedPoint) -> list[LaterWork]:
    """What going on from the checkpoint loses of the history, as something to consent to."""
    if not _beyond(session, point):
        return []
    return [LaterWork("history", f"{session.event_count}/{session.epoch}", _facts(session, point))]


def fill(session_id: str, *, event_watermark: int, source_epoch: int, source: str) -> None:
    """Let the history reach the checkpoint: a line for each lost one, and an epoch that no lost machine had been beyond.

    Prerequisite: inside a transaction of somebody's consent. Does nothing where nothing is missing. Raises RecoveryRequired for too many.
    """
    session = Session.objects.select_for_update(no_key=True).get(id=session_id)
    if event_watermark - session.event_count > LOST_LINES:
        raise RecoveryRequired(
            f"The checkpoint lies {event_watermark - session.event_count} events beyond the history. Nothing was done.",
            next_action="Tell the operator: the database is to be restored from a newer backup.",
        )
    with connection.cursor() as cursor:
        cursor.execute(
            _FILL,
            {
                "session": session.id,
                "epoch": session.epoch,
                "type": LOST,
                "source": source,
                "first": session.event_count + 1,
                "last": event_watermark,
            },
        )
    Session.objects.filter(id=session.id).update(
        event_count=Greatest("event_count", event_watermark), epoch=Greatest("epoch", source_epoch)
    )


def _beyond(session: Session, point: SavedPoint) -> Beyond:
    return beyond(
        event_watermark=point.event_watermark, source_epoch=point.source_epoch, event_count=session.event_count, epoch=session.epoch
    )


def _facts(session: Session, point: SavedPoint) -> dict[str, Any]:
    return {
        "checkpoint_id": point.id,
        "event_watermark": point.event_watermark,
        "event_count": session.event_count,
        "source_epoch": point.source_epoch,
        "execution_epoch": session.epoch,
    }
