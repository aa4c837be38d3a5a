"""A session's history as it happens. The view judges the request; keepstate_site/events sends the bytes, and holds no thread for it."""

import json
from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request

from sessions_app.api import pages
from sessions_app.api.envelope import Shape
from sessions_app.api.event import EventRow
from sessions_app.api.schema import errors
from sessions_app.api.view import ApiView
from sessions_app.models import SessionEvent
from sessions_app.services import session as sessions

_NUMBERS = range(2**63)
#: The answer's header by which the view hands an admitted stream over; it never leaves the process.
HANDOVER = "X-KeepState-Stream"
CONTENT_TYPE = "text/event-stream; charset=utf-8"


class EventStreamView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_events_stream",
        tags=["sessions"],
        summary="Follow a session's history as server-sent events",
        description=(
            "`hello` with the session's epoch, then an `event` for each line (as in the page of events, its number as the id), from "
            "`after_seq` on and as they are appended; a comment when nothing happened for a while; `end` with a reason when the session "
            "is deleted, the token has ended, or the server stops. Go on with the last number seen."
        ),
        parameters=[
            OpenApiParameter("after_seq", int, description="Only events with a larger number; absent: from the beginning."),
            OpenApiParameter("Last-Event-ID", int, OpenApiParameter.HEADER, description="The same, as browsers send it; it comes first."),
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse(OpenApiTypes.STR, "Server-sent events"),
            **errors(400, 401, 403, 404, 409, 426, 429, 503),
        },
    )
    def get(self, request: Request, session_id: str) -> HttpResponse:
        after = pages.whole(request.query_params, "after_seq", default=0, allowed=_NUMBERS)
        after = pages.whole({"Last-Event-ID": request.headers.get("Last-Event-ID", "")}, "Last-Event-ID", default=after, allowed=_NUMBERS)
        session = sessions.find(self.account, session_id)
        response = HttpResponse(content_type=CONTENT_TYPE)
        response["Cache-Control"] = "no-store"
        response["X-Accel-Buffering"] = "no"
        if request.method == "GET":
            handed = {
                "session": session.id,
                "epoch": session.epoch,
                "last": session.event_count,
                "after": after,
                "account": session.account_id,
                "token": self.token.id,
            }
            response[HANDOVER] = json.dumps(handed)
        return response


def row_words(row: SessionEvent, left: list[range]) -> dict[str, Any]:
    """An event as the page of events tells it. `left`: the numbers that restores have left by now."""
    return dict(EventRow(row, context={"left": {row.session_id: left}}).data)
