"""What the fleet does every few seconds for all its hosts, on whichever worker of the control queue is free.

Two turns at once do no harm: each part changes rows by guarded updates alone.
"""

import logging
from collections.abc import Callable, Sequence

from workers.fleet import moves
from workers.fleet.again import try_again
from workers.fleet.lost import take_from_lost
from workers.fleet.waiting import place_waiting

log = logging.getLogger(__name__)

PARTS: Sequence[Callable[[], int]] = (take_from_lost, try_again, place_waiting, moves.move_on)


def take() -> int:
    """One part that fails never keeps the others from being done. Returns how much was done; raises, after all of them, what the last one
    that failed did, so that the turn's row and its alarm tell of it (workers/turns.py).
    """
    done, failed = 0, None
    for part in PARTS:
        try:
            done += part()
        except Exception as error:
            log.exception("a part of the fleet's turn failed", extra={"part": part.__module__})
            failed = error
    if failed is not None:
        raise failed
    return done
