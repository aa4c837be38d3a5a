"""The rows that say how each recurring look through the store goes."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db.models.functions import Now

from checkpoints_app.models import Sweep
from checkpoints_app.store import StoreError
from sessions_app.services import locks


@contextmanager
def running(name: str) -> Iterator[Sweep]:
    """One run at a time in the whole fleet: raises Busy if another goes on. What the block raises is kept in the row."""
    with locks.exclusive(f"sweep/{name}", 0):
        Sweep.objects.update_or_create(
            name=name, defaults={"started_at": Now(), "finished_at": None, "objects_done": 0, "bytes_done": 0, "report": {}, "error": ""}
        )
        row = Sweep.objects.get(name=name)
        try:
            yield row
        except StoreError as error:
            row.error = str(error)
            raise
        except Exception as error:
            row.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            save(row)
            Sweep.objects.filter(name=name).update(finished_at=Now())


def save(row: Sweep) -> None:
    """Let a reader see how far it is."""
    row.save(update_fields=["objects_done", "bytes_done", "bytes_wanted", "report", "error"])
