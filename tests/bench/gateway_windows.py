"""Rows of the bench of the gateway: a session that calls, and windows in which its calls are replayed."""

from datetime import timedelta

from django.utils import timezone

from gateway_app.calls.window import Why
from gateway_app.models import Call, WindowEntry
from gateway_app.states import CallState
from sessions_app.models import Account
from tests.support.calling import calling_session

TOKENS = 10**12


def prepared() -> tuple[str, str]:
    """(account, session): it runs, and its calls may leave."""
    account = Account.objects.create(name="bench")
    return account.id, calling_session(account, "sk-ant-bench-0042", tokens=TOKENS).id


def opened(session: str, api: str, streamed: bool, count: int) -> None:
    """The window has the newest so many complete calls of that form. RuntimeError if there are fewer."""
    WindowEntry.objects.all().delete()
    calls = Call.objects.filter(session_id=session, api=api, streamed=streamed, state=CallState.COMPLETE).order_by("-started")[:count]
    until = timezone.now() + timedelta(minutes=15)
    made = [WindowEntry(session_id=session, epoch=1, call=call, why=Why.LOST, order=call.started, open_until=until) for call in calls]
    if len(made) != count:
        raise RuntimeError(f"a window of {count} calls was wanted, and {len(made)} were made before")
    WindowEntry.objects.bulk_create(made)
