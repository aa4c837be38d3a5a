"""A session's history."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import pages
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Moment
from sessions_app.api.schema import errors, page_parameters
from sessions_app.api.view import ApiView
from sessions_app.errors import Invalid
from sessions_app.models import SessionEvent
from sessions_app.services import bounds, event, history
from sessions_app.services import session as sessions
from sessions_app.services.history import Gap

OWN, FULL = "own", "full"
_NUMBERS = range(2**63)


class EventRow(serializers.Serializer[SessionEvent]):
    event_id = serializers.CharField(source="id")
    stream_seq = serializers.IntegerField(source="number", help_text="From 1, without gaps, per session.")
    subject_type = serializers.CharField()
    subject_id = serializers.CharField()
    task_id = serializers.SerializerMethodField(method_name="absent")
    attempt_id = serializers.SerializerMethodField(method_name="absent")
    epoch = serializers.IntegerField()
    source = serializers.CharField()  # type: ignore[assignment]  # a field of that name, not the framework's attribute
    observed_at = Moment()
    recorded_at = Moment()
    payload = serializers.DictField()
    session_id = serializers.CharField(help_text="Whose event it is: in a whole line also an ancestor's.")
    superseded = serializers.SerializerMethodField(help_text="Whether a restore has left it. It stays; nothing is rolled back.")

    def get_superseded(self, row: SessionEvent) -> bool:
        return history.superseded(row, self.context.get("left", {}).get(row.session_id, []))

    def absent(self, row: Any) -> str | None:
        """Tasks are not of this version."""
        return None


class GapRow(serializers.Serializer[Gap]):
    """Events that belong to the line and are not shown."""

    session_id = serializers.CharField()
    from_seq = serializers.IntegerField()
    to_seq = serializers.IntegerField(allow_null=True, help_text="null: it is not known how many there were.")
    reason = serializers.CharField(help_text="deleted (with their session), unknown (of a session not known here), not_shown, missing.")


EVENT_PAGE = inline_serializer(
    "EventPageEnvelope",
    {
        "schema_version": serializers.IntegerField(),
        "data": inline_serializer(
            "EventPage",
            {
                "items": EventRow(many=True),
                "next_cursor": serializers.CharField(allow_blank=True),
                "gaps": GapRow(many=True, help_text="Of this page, in a whole line."),
            },
        ),
    },
)


class EventListView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_events",
        tags=["sessions"],
        summary="Read a session's history, oldest first",
        description="With line=full a fork's history is its parent's up to the fork, then its own; what is missing of it is told in gaps.",
        parameters=[
            OpenApiParameter("after_seq", int, description="Only events with a larger number; absent: from the beginning."),
            OpenApiParameter("line", str, enum=[OWN, FULL], description="own (the default), or full: with what was before the fork."),
            *page_parameters(bounds.DEFAULT_EVENT_PAGE, bounds.EVENT_PAGE),
        ],
        responses={200: EVENT_PAGE, **errors(400, 401, 403, 404, 409, 426)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        query = request.query_params
        limit = pages.whole(query, "limit", default=bounds.DEFAULT_EVENT_PAGE, allowed=bounds.EVENT_PAGE)
        if query.get("line", OWN) == FULL:
            return self._full(query, session_id, limit)
        if query.get("line", OWN) != OWN:
            raise Invalid(f"line is {OWN} or {FULL}.")
        after = pages.whole(query, "after_seq", default=0, allowed=_NUMBERS)
        after = pages.whole(query, "cursor", default=after, allowed=_NUMBERS)
        session = sessions.find(self.account, session_id)
        page = event.page(session, after=after, limit=limit)
        left = {session.id: history.left_by_restores(session.id, after=after)} if page.items else {}
        return self.answer({**pages.rendered(page, EventRow, left=left), "gaps": []})

    def _full(self, query: Mapping[str, str], session_id: str, limit: int) -> Response:
        if query.get("after_seq"):
            raise Invalid("after_seq is a number of the session's own line; a whole line is read by its cursor.")
        session = sessions.find(self.account, session_id)
        page = history.line_page(session, cursor=query.get("cursor", ""), limit=limit)
        items, gaps = pages.rows(page.items, EventRow, left=page.left), pages.rows(page.gaps, GapRow)
        return self.answer({"items": items, "next_cursor": page.next_cursor, "gaps": gaps})
