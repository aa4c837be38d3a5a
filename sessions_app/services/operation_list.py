"""The list of an account's operations, newest first."""

from django.db.models import Q

from sessions_app.models import Account, Operation, Session
from sessions_app.services import cursor as cursors
from sessions_app.services.cursor import Page
from sessions_app.states import OperationState


def page(account: Account, *, session: Session | None, state: OperationState | None, limit: int, cursor: str = "") -> Page[Operation]:
    """At most `limit` operations after the cursor. Raises Invalid for a bad cursor."""
    operations = Operation.objects.filter(account=account)
    if session is not None:
        operations = operations.filter(session=session)
    if state is not None:
        operations = operations.filter(state=state)
    if cursor:
        moment, row_id = cursors.decode(cursor)
        # the first condition lets the index begin at the cursor; the second orders equal moments
        operations = operations.filter(accepted_at__lte=moment).filter(Q(accepted_at__lt=moment) | Q(id__lt=row_id))
    found = list(operations.order_by("-accepted_at", "-id")[: limit + 1])
    items = found[:limit]
    return Page(items, cursors.encode(items[-1].accepted_at, items[-1].id) if len(found) > limit else "")
