"""A turn of the beat: what it runs, with a row that says when the last one began and ended, and what came of it."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db.models.functions import Now

from checkpoints_app.models import Sweep


def expect() -> None:
    """A row for each entry of the beat's schedule, from now on, if it has none: a turn that never comes can be missed then."""
    schedule: dict[str, Any] = settings.CELERY_BEAT_SCHEDULE  # type: ignore[misc]  # made by the settings' own parts
    Sweep.objects.bulk_create([Sweep(name=name) for name in schedule], ignore_conflicts=True)


def take(name: str, do: Callable[[], int | None]) -> None:
    """Run `do`, which may return how many things it did. What it raises is kept in the row, and raised.

    No lock is held: what the beat runs is safe beside itself, and a worker that stands still must not keep others from the work.
    """
    Sweep.objects.update_or_create(name=name, defaults={"started_at": Now()})
    try:
        done = do() or 0
    except Exception as error:
        _end(name, 0, type(error).__name__)
        raise
    _end(name, done, "")


def _end(name: str, done: int, error: str) -> None:
    Sweep.objects.filter(name=name).update(finished_at=Now(), objects_done=done, error=error)
