"""A session and all that is at work on it, held together: for whoever ends the work of others."""

from django.db import transaction

from sessions_app.models import Operation, Session
from sessions_app.services import operation
from sessions_app.states import OPERATION_ACTIVE

_TRIES = 5


class NeverStill(Exception):
    """Other work is asked of the session again and again."""


def with_work(session: Session) -> tuple[Session, list[Operation]]:
    """The session as it is now and its active operations, locked in the order in which workers lock them: operations, then the session.

    Prerequisite: inside a transaction. Raises NotFound if it was deleted meanwhile, NeverStill. What came in between the two locks is a
    reason to let go and look again.
    """
    active = Operation.objects.filter(session_id=session.id, state__in=OPERATION_ACTIVE)
    for _ in range(_TRIES):
        try:
            with transaction.atomic():
                held = list(active.select_for_update(no_key=True).order_by("id"))
                row = operation.lock(session)
                if active.exclude(id__in=[one.id for one in held]).exists():
                    raise _Moved
                return row, held
        except _Moved:
            continue
    raise NeverStill(session.id)


class _Moved(Exception):
    pass
