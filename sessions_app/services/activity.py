"""When a session was last used, as far as its idle policy asks: a command, an open console, a file transfer, a model call."""

from datetime import timedelta

from django.db.models.functions import Now

from sessions_app.models import IdlePolicy, Operation, Session
from sessions_app.services import steps
from sessions_app.states import OPERATION_ACTIVE, OperationKind

#: Uses within so long of each other are written once.
GRAIN = timedelta(seconds=1)
#: Whoever keeps something open that counts as use (a console, a long transfer) tells it again at least this often.
TELL_EVERY_SECONDS = 20


def touch(session: Session) -> None:
    """The session is used now. Cheap and safe to call from anywhere: one update, of no row where no policy asks or it was just told."""
    IdlePolicy.objects.filter(session_id=session.id, enabled=True, active_at__lt=Now() - GRAIN).update(active_at=Now())


def notice(session: Session) -> None:
    """What other apps have seen of its use counts from here on: paths on which every millisecond counts write nothing for it themselves."""
    seen = [at for at in (used_at(session) for used_at in steps.used_at) if at is not None]
    if seen:
        IdlePolicy.objects.filter(session_id=session.id, active_at__lt=max(seen)).update(active_at=max(seen))


def command_runs(session: Session) -> bool:
    """A command that was asked for and has not ended is use for as long as it takes."""
    return Operation.objects.filter(session=session, kind=OperationKind.EXEC, state__in=OPERATION_ACTIVE).exists()
