"""After a resume: wait until the guest's clock is set, for the session counts as running before it is."""

import logging
from collections.abc import Callable

from django.db import transaction

from sessions_app.models import Session
from sessions_app.services import event as events
from sessions_app.services.database import drop_broken_connection
from sessions_app.states import SESSION_LIVE
from workers.machine.driver import MachineError
from workers.operations.work import Work

log = logging.getLogger(__name__)


def await_clock(work: Work, clock: Callable[[], None]) -> None:
    """Prerequisite: the resume is committed, so its lease is over and whatever happens here is no failure of it. Never raises.

    A clock that stays wrong is an event of the session; a machine that has ended meanwhile is told of by whoever looks after the host.
    A worker that dies here leaves a guest that sets its clock all the same, and nobody who hears if it could not.
    """
    try:
        clock()
    except MachineError as error:
        log.warning("a resumed guest did not say that its clock is set", extra={"code": error.code, "reason": str(error)})
        if error.code == "exec_failed":
            _tell_or_log(work, str(error))


def _tell_or_log(work: Work, reason: str) -> None:
    try:
        _tell(work, reason)
    except Exception:
        drop_broken_connection()
        log.exception("the wrong clock could not be written into the session's history")


def _tell(work: Work, reason: str) -> None:
    """Nothing, if the session has left this epoch or runs no more."""
    with transaction.atomic():
        here = Session.objects.select_for_update().filter(id=work.session.id, epoch=work.session.epoch, runtime_state__in=SESSION_LIVE)
        if here.exists():
            events.append(work.session.id, "session.clock_not_set", {"reason": reason}, source=work.source)
