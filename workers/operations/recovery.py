"""Which loss a failed session has met, by the word of its failure, and so what its recovery policy says to it."""

from collections.abc import Mapping

from sessions_app.errors import HostLost, MachineLost
from sessions_app.models import Session
from sessions_app.services import recovery_policy
from sessions_app.states import ResumedBy

#: A machine that was killed, or failed by its hypervisor, alone or with its host. One that was ended by its own guest, or for what it was
#: resumed from, has other words, and does not go on by itself.
LOSSES: Mapping[str, ResumedBy] = {MachineLost.code: ResumedBy.MACHINE_LOST, HostLost.code: ResumedBy.HOST_LOST}


def recover(session: Session, *, source: str) -> None:
    """Ask for the resume that the policy wants after that loss, if it was one. Prerequisites and effects: as `recovery_policy.recover`."""
    by = LOSSES.get((session.failure or {}).get("code", ""))
    resume = recovery_policy.recover(session, by=by, source=source) if by is not None else None
    if resume is not None:
        recovery_policy.wait_for(session, resume)
