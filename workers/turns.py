"""A turn of a sweep: one at a time in the whole fleet, with a row that says when the last one began, ended, and what it did."""

import logging
from collections.abc import Callable

from checkpoints_app.services import sweeps
from checkpoints_app.services.locks import Busy

log = logging.getLogger(__name__)


def take(name: str, do: Callable[[], int]) -> None:
    """Run `do`, which returns how many things it did; nothing if another worker is at it. What it raises is kept in the row and raised."""
    try:
        with sweeps.running(name) as row:
            row.objects_done = do()
    except Busy:
        log.debug("another worker has this turn", extra={"sweep": name})
