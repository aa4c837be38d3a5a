"""A session's history."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import pages
from sessions_app.api.envelope import Shape
from sessions_app.api.schema import errors, page_of, page_parameters
from sessions_app.api.view import ApiView
from sessions_app.models import SessionEvent
from sessions_app.services import bounds, event
from sessions_app.services import session as sessions

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
    observed_at = serializers.DateTimeField()
    recorded_at = serializers.DateTimeField()
    payload = serializers.DictField()

    def absent(self, row: Any) -> str | None:
        """Tasks are not of this version."""
        return None


class EventListView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_events",
        tags=["sessions"],
        summary="Read a session's history, oldest first",
        parameters=[
            OpenApiParameter("after_seq", int, description="Only events with a larger number; absent: from the beginning."),
            *page_parameters(bounds.DEFAULT_EVENT_PAGE, bounds.EVENT_PAGE),
        ],
        responses={200: page_of(EventRow), **errors(400, 401, 403, 404, 409, 426)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        query = request.query_params
        after = pages.whole(query, "after_seq", default=0, allowed=_NUMBERS)
        after = pages.whole(query, "cursor", default=after, allowed=_NUMBERS)
        limit = pages.whole(query, "limit", default=bounds.DEFAULT_EVENT_PAGE, allowed=bounds.EVENT_PAGE)
        page = event.page(sessions.find(self.account, session_id), after=after, limit=limit)
        return self.answer(pages.rendered(page, EventRow))
