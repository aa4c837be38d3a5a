"""What a session's page shows above its fields: parts that each app contributes, drawn when the page is opened."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import reverse

from sessions_app.drawing.svg import Svg, element, join
from sessions_app.drawing.table import Cell, Tile, table, tiles
from sessions_app.models import Operation, Session, SessionEvent
from sessions_app.services.operation import active_of
from sessions_app.services.steps import Chain
from sessions_app.states import SessionState

#: Events, and operations, of which the timeline is made; so many lines of both together.
READ, SHOWN = 40, 40


@dataclass(frozen=True)
class Part:
    key: str
    title: str
    content: Svg


#: Parts by the apps that stand on this one, in the order of registration.
parts: Chain[Callable[[Session], Part]] = Chain("session_page")


def of(session: Session) -> list[Part]:
    return [_overview(session), *(part(session) for part in parts), _timeline(session)]


def page(model: str, key: str) -> str:
    return reverse(f"admin:{model}_change", args=[quote(key)])


def _overview(session: Session) -> Part:
    busy = active_of([session]).get(session.id)
    wrong = session.runtime_state in (SessionState.FAILED, SessionState.RECOVERY_REQUIRED)
    failure = (session.failure or {}).get("message", "")
    shown = [
        Tile("State", session.runtime_state, str(failure)[:200] if wrong else "", "wrong" if wrong else "plain"),
        Tile("Epoch", str(session.epoch), f"revision {session.revision}"),
        Tile("Host", session.host_id or "none", link=page("workers_host", session.host_id) if session.host_id else ""),
        Tile(
            "Now",
            busy.kind if busy else "nothing",
            busy.state if busy else "",
            link=page("sessions_app_operation", busy.id) if busy else "",
        ),
        Tile("Last checkpoint", f"{session.head_checkpoint_at:%m-%d %H:%M}" if session.head_checkpoint_at else "none", _head(session)),
    ]
    return Part("overview", "Now", tiles(shown))


def _head(session: Session) -> str:
    return session.head_checkpoint_id or "its work is not saved"


def _timeline(session: Session) -> Part:
    """The newest of its history and of what was asked of it, by time. Of an event its type; what it holds is the owner's."""
    events = SessionEvent.objects.filter(session=session).order_by("-number").defer("payload")[:READ]
    asked = Operation.objects.filter(session=session).order_by("-accepted_at").defer("parameters", "response", "error")[:READ]
    lines: list[tuple[Any, list[Any]]] = [(one.recorded_at, _event(one)) for one in events]
    lines += [(one.accepted_at, _operation(one)) for one in asked]
    newest = sorted(lines, key=lambda line: line[0], reverse=True)[:SHOWN]
    rows = [[f"{at:%Y-%m-%d %H:%M:%S}", *cells] for at, cells in newest]
    whole = f"{reverse('admin:sessions_app_sessionevent_changelist')}?{urlencode({'q': session.id})}"
    drawn = table(["When (UTC)", "What", "Epoch", "How", "By"], rows, empty="Nothing has happened yet.")
    return Part("timeline", "Timeline", join((drawn, element("p", element("a", "The whole history", href=whole), class_="ks-empty"))))


def _event(one: SessionEvent) -> list[Any]:
    return [f"{one.number}. {one.type}", one.epoch, "", one.source]


def _operation(one: Operation) -> list[Any]:
    looks = {"failed": "wrong", "reconciliation_required": "wrong", "cancelled": "doubt", "succeeded": "well"}
    look: Any = looks.get(one.state, "plain")
    return [Cell(f"{one.kind} {one.id}", page("sessions_app_operation", one.id)), "", Cell(one.state, look=look), one.lease_owner]
