"""Where an operation is to be done: the queue that it is rung in, the host that it was placed on, and the room that it takes there.

The operation's own row is the reservation: it is written in the commit that accepts the operation and counts as long as that is active, so
nothing has to be given back, whatever dies.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sessions_app.services import dispatch
from sessions_app.states import WaitsFor


@dataclass(frozen=True)
class Placement:
    """`host_id` is empty where any host may do it, and while the operation waits for one: `waits_for` says for what then, and `waits_as`
    which of those that wait ask for the same.
    """

    queue: str
    host_id: str = ""
    reserved_bytes: int = 0
    waits_for: str = ""
    waits_as: str = ""


#: Asked last in the transaction that accepts an operation, for it may take a lock that all the fleet shares.
Place = Callable[[], Placement]


def on(host_id: str, reserved_bytes: int = 0) -> Placement:
    """Work that this host does: it has the machine already, or room for one was reserved there."""
    return Placement(dispatch.host_queue(host_id), host_id, reserved_bytes)


def beside(host_id: str) -> Placement:
    """Waiting work of a host that has the machine: commands in its guest."""
    return Placement(dispatch.io_queue(host_id), host_id)


def waiting(waits_for: WaitsFor, reserved_bytes: int, waits_as: str) -> Placement:
    """Work that no host can take now. Nothing is reserved for it anywhere: the bytes say what it needs."""
    return Placement(dispatch.WAITING_QUEUE, reserved_bytes=reserved_bytes, waits_for=waits_for, waits_as=waits_as)


def anywhere() -> Placement:
    """Work that needs no machine."""
    return Placement(dispatch.CONTROL_QUEUE)
