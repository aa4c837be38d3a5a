"""What plain requests get where a terminal is: the terminal itself is served before Django (keepstate_site/console)."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.auth import SESSIONS_WRITE
from sessions_app.api.envelope import Shape
from sessions_app.api.schema import errors
from sessions_app.api.view import ApiView
from sessions_app.errors import UpgradeRequired
from sessions_app.services import session as sessions

_SIZE = [
    OpenApiParameter("cols", int, description="Columns, 2 to 500; absent: 80."),
    OpenApiParameter("rows", int, description="Rows, 2 to 300; absent: 24."),
]


class ConsoleView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_console",
        tags=["console"],
        summary="An interactive terminal, as a WebSocket",
        description='Binary messages are bytes; text messages are JSON, such as {"resize": [100, 30]}. Typing needs sessions:write, '
        "looking (view=1) sessions:read. See docs/operations/console.md.",
        parameters=[*_SIZE, OpenApiParameter("view", bool, description="1: only look.")],
        responses={101: None, **errors(400, 401, 403, 404, 409, 426, 503, 504)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        session = sessions.find(self.account, session_id)
        raise _refusal(f"/api/v2/sessions/{session.id}/console", "a WebSocket")


class AttachView(ApiView):
    needs = SESSIONS_WRITE

    @extend_schema(
        operation_id="session_attach",
        tags=["console"],
        summary="An interactive terminal, as raw bytes after Upgrade: ks-attach",
        parameters=[*_SIZE, OpenApiParameter("term", str, description="Taken and not used: the machine's terminal is xterm-256color.")],
        responses={101: None, **errors(400, 401, 403, 404, 409, 426, 503, 504, v2=False)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        session = sessions.find(self.account, session_id)
        raise _refusal(f"/api/sessions/{session.id}/attach", "the upgrade ks-attach")


def _refusal(path: str, what: str) -> Any:
    return UpgradeRequired(
        f"This route is {what}; the request asked for no such upgrade. Nothing was opened.",
        next_action=f"Connect to {path} with {what}, or use exec for a single command.",
    )
