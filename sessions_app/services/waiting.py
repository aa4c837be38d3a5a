"""Operations that were accepted and that no host can take yet: what a reader is told, and who is asked to look again.

A row waits from its `due_at` on. It is placed by the fleet's turn, in order of acceptance (workers/fleet/waiting.py).
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from sessions_app.models import Operation
from sessions_app.services import dispatch
from sessions_app.states import OperationState, WaitsFor

WHY: Mapping[str, str] = {
    WaitsFor.NO_ROOM: "Every host that could take it is full.",
    WaitsFor.DRAINING: "Every host that could take it is draining.",
    WaitsFor.NO_HOST: "No host that could take it answers.",
}
_UNTIL: Mapping[str, str] = {
    WaitsFor.NO_ROOM: "It begins as soon as one has room.",
    WaitsFor.DRAINING: "It begins as soon as one takes work again.",
    WaitsFor.NO_HOST: "It begins as soon as one is back.",
}


def longest() -> timedelta:
    """After this an operation does not wait for a host any more (KEEPSTATE_PLACEMENT_WAIT_SECONDS)."""
    seconds: int = settings.KEEPSTATE_PLACEMENT_WAIT_SECONDS
    return timedelta(seconds=seconds)


def words(waits_for: str) -> str:
    return f"{WHY[waits_for]} {_UNTIL[waits_for]}"


def line() -> "QuerySet[Operation]":
    """What waits, in order of acceptance."""
    return Operation.objects.filter(state=OperationState.QUEUED).exclude(waits_for="").order_by("accepted_at", "id")


def shown_progress(operation: Operation) -> dict[str, Any]:
    """The operation's progress, and under `waiting` why it has no host yet and since when."""
    if operation.state != OperationState.QUEUED or not operation.waits_for:
        return dict(operation.progress)
    told = {"for": operation.waits_for, "reason": words(operation.waits_for), "since": operation.due_at.isoformat()}
    return {**operation.progress, "waiting": told}


def wake() -> None:
    """Room may have become free: ask for the fleet's turn at once, if something waits. Prerequisite: inside the transaction that frees it.

    What began to wait in a transaction beside this one is not seen here; the next turn comes within seconds.
    """
    if Operation.objects.filter(state=OperationState.QUEUED).exclude(waits_for="").exists():
        dispatch.ring_control_once_committed(dispatch.FLEET)
