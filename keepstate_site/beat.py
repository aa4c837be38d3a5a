"""Beat: when the turns are due. What it sends is a doorbell like any other: bounded where nobody reads it, never waited for."""

from typing import Any

from celery.beat import PersistentScheduler, ScheduleEntry

from sessions_app.services import dispatch

#: A turn that comes once in hours is not left out because those of every few seconds are unread.
RARE_SECONDS = 60.0
UNREAD_RARE = 10 * dispatch.UNREAD_DOORBELLS


class Scheduler(PersistentScheduler):
    """Celery's own, which would wait for a broker that is away, and fill one that nobody reads with a message a second."""

    producer = None  # Celery's, which connects by retrying for ever

    def install_default_entries(self, data: Any) -> None:
        """Celery's own clean results up, of which none are kept."""

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        rare = self.app.conf.beat_schedule[entry.name]["schedule"] >= RARE_SECONDS
        dispatch.ring_control(
            entry.task, unread=UNREAD_RARE if rare else dispatch.UNREAD_DOORBELLS, expires=float(entry.options["expires"])
        )
