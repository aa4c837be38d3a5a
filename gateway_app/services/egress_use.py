"""What a session's machine has connected to beside its model provider, and what it was refused."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway_app.models import EgressLine, EgressSum
from sessions_app.models import Session


@dataclass(frozen=True)
class EgressUse:
    """Sums over all of its life, and its newest lines, the last one first."""

    connections: int
    refusals: int
    sent_bytes: int
    received_bytes: int
    lines: Sequence[EgressLine]


def of_session(session: Session) -> EgressUse:
    """Some seconds behind (gateway_app.egress.watch.WRITE_SECONDS)."""
    sums = EgressSum.objects.filter(session=session).first() or EgressSum(session=session)
    lines = list(EgressLine.objects.filter(session=session).order_by("-last_at", "-id"))
    return EgressUse(sums.connections, sums.refusals, sums.sent_bytes, sums.received_bytes, lines)
