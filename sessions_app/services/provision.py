"""A session's record before its machine: made, renamed, given a machine. The plain start does all of it in one call."""

from django.db import transaction

from sessions_app.models import Account, Operation, Session
from sessions_app.services import account as accounts
from sessions_app.services import bounds, event, operation, revision
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from sessions_app.states import OperationKind


@transaction.atomic
def record(account: Account, wanted: Wanted) -> Session:
    """A session that waits for a machine: `provisioning`, in no operation, on no host. It waits as long as its owner lets it.

    Raises Invalid, or as `sessions.begin`; then nothing was written. Nothing is reserved for it.
    """
    session = sessions.draft(account, wanted)
    sessions.begin(session, wanted.workspace_id)
    return session


@transaction.atomic
def provision(session: Session, *, expected_revision: int, budget_tokens: int | None, asked: Asked) -> Operation:
    """Ask for the machine of a record.

    Raises Invalid, WrongState, Conflict (ks_revision_conflict) or FleetUnavailable; then nothing was written.
    """
    if budget_tokens is not None:
        bounds.require_budget(budget_tokens)
    session = operation.lock(session)
    operation.require_state(session, OperationKind.BOOT)
    if not operation.waits_for_machine(session):
        raise operation.busy(session, OperationKind.BOOT)
    revision.advance(session, expected_revision)
    if budget_tokens is not None:
        Session.objects.filter(id=session.id).update(budget_tokens=budget_tokens)
        session.refresh_from_db(fields=["budget_tokens"])
    return operation.accept(session=session, kind=OperationKind.BOOT, place=lambda: sessions.place(session), asked=asked)


@transaction.atomic
def rename(session: Session, name: str, *, expected_revision: int) -> Session:
    """The session under its new name; names need not be unique. Asking for the name that it has changes nothing.

    Raises Invalid, AccountClosing, or Conflict (ks_revision_conflict) if the session has moved on since it was read.
    """
    bounds.require_name(name, "Nothing was renamed.")
    accounts.require_open(session.account_id)
    session = operation.lock(session)
    if session.name != name:
        revision.advance(session, expected_revision)
        Session.objects.filter(id=session.id).update(name=name)
        event.append(session.id, "session.renamed", {"name": name}, source="api")
        session.refresh_from_db()
    return session
