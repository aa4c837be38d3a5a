"""What an operator does to a customer's sessions, operations and tokens: the same services as the API's, and a line in the service record.

Both are one transaction: neither stands without the other. `by` is the operator's user name. Refusals are the services' own, and then
nothing was written. Reasons are ours, for a session's history is its owner's to read.
"""

from typing import Any

from django.db import transaction

from sessions_app.errors import Conflict
from sessions_app.models import Account, AccountDeletion, ApiToken, Operation, Session, WebhookDelivery
from sessions_app.services import account_deletion, record, session_deletion, steps
from sessions_app.services import cancel as cancelling
from sessions_app.services import retry as retrying
from sessions_app.services import session as sessions
from sessions_app.services import token as tokens
from sessions_app.services.operation import Asked
from sessions_app.services.webhooks import delivery
from sessions_app.states import RecordKind

REASON = "asked by an operator"
SOURCE = "operator"


def write(what: str, by: str, *, account_id: str, session_id: str = "", **facts: Any) -> None:
    """Prerequisite: inside the transaction of what was done."""
    record.write(RecordKind.OPERATOR, f"operator.{what}", account_id=account_id, session_id=session_id, actor=by, facts=facts)


@transaction.atomic
def save(session: Session, by: str) -> Operation:
    return _told("save", by, sessions.checkpoint(session, stop=False, reason=REASON, asked=Asked()))


@transaction.atomic
def park(session: Session, by: str) -> Operation:
    return _told("park", by, sessions.checkpoint(session, stop=True, reason=REASON, asked=Asked()))


@transaction.atomic
def resume(session: Session, by: str) -> Operation:
    return _told("resume", by, sessions.resume(session, checkpoint_id=None, asked=Asked()))


@transaction.atomic
def move(session: Session, by: str, to: str = "") -> Operation:
    """To another host; `to`: that one. Returns the save that it begins with; the resume follows in the commit that ends it."""
    return _told("move", by, steps.move_session.call(session, to), left=session.host_id, to=to)


@transaction.atomic
def delete(session: Session, by: str, *, plan_id: str, confirm: str) -> Operation:
    """`confirm` is what the operator typed: it must name the session."""
    return _told("delete", by, session_deletion.execute(session, plan_id=plan_id, confirm=confirm, asked=Asked()))


@transaction.atomic
def cancel(operation: Operation, by: str) -> Operation:
    return _told("cancel", by, cancelling.cancel(operation, source=SOURCE))


@transaction.atomic
def retry(operation: Operation, by: str) -> Operation:
    return _told("retry", by, retrying.again(operation), instead_of=operation.id)


@transaction.atomic
def revoke(token: ApiToken, by: str) -> None:
    tokens.end(token, actor=by)
    write("revoke", by, account_id=token.account_id, token_id=token.id)


@transaction.atomic
def keep_account(deletion: AccountDeletion, by: str) -> None:
    """The scheduled deletion is cancelled. Raises Conflict if it has begun, or has ended."""
    account = Account.objects.filter(id=deletion.account_id).first()
    if account is None:
        raise Conflict("The account is gone. Nothing was cancelled.")
    account_deletion.cancel(account, actor=by)
    write("keep_account", by, account_id=deletion.account_id, deletion_id=deletion.id)


@transaction.atomic
def redeliver(message: WebhookDelivery, by: str) -> None:
    delivery.redeliver(message.endpoint, message.id)
    write("redeliver", by, account_id=message.endpoint.account_id, session_id=message.session_id, delivery_id=message.id)


def _told(what: str, by: str, operation: Operation, **facts: Any) -> Operation:
    write(
        what, by, account_id=operation.account_id, session_id=operation.session_id, operation_id=operation.id, kind=operation.kind, **facts
    )
    return operation
