"""The replay window: which recorded calls may answer a request of a machine that goes on from a checkpoint.

Ticks order calls without a clock: one is drawn when a call starts and one when it ends, and a checkpoint holds the tick that was drawn when
the machine stopped (its call watermark). A machine that goes on from checkpoint C may ask again for

  in flight       calls that had started and not ended at C: the machine waits for them still
  unread          calls that had ended at C with no call started since: their answer may lie unread in the machine's memory
  lost            calls that earlier machines made after C: what led to them is in C's memory, what came of them is not

and for nothing else: whatever else it asks is asked anew, on purpose. Errors and cut streams answer nobody. Without any resume a fourth
kind arises: a call whose caller left before it had all of the answer (`undelivered`): its retry joins it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Why(StrEnum):
    """Why a call is in the window; the value is stored with its entry."""

    IN_FLIGHT = "in_flight"
    UNREAD = "unread"
    LOST = "lost"
    UNDELIVERED = "undelivered"


@dataclass(frozen=True)
class Recorded:
    """A call of the line that leads to the checkpoint or away from it. `ended` is None while it is open."""

    id: str
    started: int
    ended: int | None
    replayable: bool  # it ended as its protocol ends, with an answer that was billed
    open: bool = False  # a pump still reads it: who asks for it joins


@dataclass(frozen=True)
class Entry:
    call_id: str
    why: Why
    order: int


#: Which keys may match, by why a call is in the window (gateway_app.calls.fingerprint): the loose one is for calls that the machine waits
#: for, and no others.
KEYS = {
    Why.IN_FLIGHT: ("exact", "canonical", "loose"),
    Why.UNREAD: ("exact", "canonical"),
    Why.LOST: ("exact", "canonical"),
    Why.UNDELIVERED: ("exact", "canonical"),
}
#: Entries that go when the machine makes a call that nothing in the window answers: its work has taken another way.
CLOSED_BY_ANOTHER_WAY = frozenset({Why.UNREAD, Why.LOST, Why.UNDELIVERED})


def window(calls: Iterable[Recorded], watermark: int) -> list[Entry]:
    """The entries, oldest first: in this order requests take them. `calls`: all of the line, whatever their epoch; `watermark`: C's."""
    known = sorted(calls, key=lambda call: call.started)
    last_start = max((call.started for call in known if call.started <= watermark), default=0)
    entries = []
    for call in known:
        why = _why(call, watermark, last_start)
        if why is not None and (call.replayable or call.open):
            entries.append(Entry(call.id, why, call.started))
    return entries


def _why(call: Recorded, watermark: int, last_start: int) -> Why | None:
    if call.started > watermark:
        return Why.LOST
    if call.ended is None or call.ended > watermark:
        return Why.IN_FLIGHT
    return Why.UNREAD if call.ended > last_start else None
