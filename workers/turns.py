"""A turn of the beat: what it runs, with a row that says when the last one began and ended, and what came of it."""

from collections.abc import Callable

from django.db.models.functions import Now

from checkpoints_app.models import Sweep


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
