"""What the service keeps of a visit to a terminal: that it is use, and who opened and closed it. Blocking."""

from typing import Any

from django.db import transaction

from keepstate_site.console.admission import Visit
from sessions_app.errors import Forbidden, Unauthenticated
from sessions_app.models import Session
from sessions_app.services import activity, event
from sessions_app.services import token as tokens
from sessions_app.states import SessionState


def opened(visit: Visit, console_id: str, way: str) -> None:
    activity.touch(visit.session)
    _append(visit, "console.opened", {"console_id": console_id, "way": way, "view": visit.view})


def closed(visit: Visit, console_id: str, facts: dict[str, Any]) -> None:
    """A web process that is killed cannot say it: an opening without a closing has ended all the same."""
    _append(visit, "console.closed", {"console_id": console_id, **facts})


def still_valid(visit: Visit) -> bool:
    """Whether the token is live and its user's role still suffices. Tells the session's use too."""
    try:
        tokens.require(tokens.authenticate(visit.plain), visit.scope)
        activity.touch(visit.session)
    except (Unauthenticated, Forbidden):
        return False
    return True


def _append(visit: Visit, type_: str, payload: dict[str, Any]) -> None:
    with transaction.atomic():
        if Session.objects.filter(id=visit.session.id).exclude(runtime_state=SessionState.DELETED).exists():
            event.append(visit.session.id, type_, payload, source=f"api/{visit.token.prefix}")
