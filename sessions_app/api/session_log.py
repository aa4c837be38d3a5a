"""A session's log: its history in words, read by polling from a cursor."""

from typing import Any

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import pages
from sessions_app.api.envelope import Shape
from sessions_app.api.schema import enveloped, errors, page_parameters
from sessions_app.api.view import ApiView
from sessions_app.services import bounds, session_log
from sessions_app.services import session as sessions

_NUMBERS = range(2**63)
#: Seconds between two polls while more may come.
POLL_SECONDS = 2
#: This version has no agents, so none writes a log.
AGENT_LOG = {"status": "absent", "detail": "This version has no agents.", "size": None, "last_written": None, "stale": None}


class LogLine(serializers.Serializer[Any]):
    source = serializers.CharField()  # type: ignore[assignment]  # a field of that name, not the framework's attribute
    time = serializers.DateTimeField()
    level = serializers.CharField(help_text="info, warning or error.")
    kind = serializers.CharField(help_text="The event's type.")
    text = serializers.CharField()


class LogPage(serializers.Serializer[Any]):
    runtime_state = serializers.CharField()
    entries = LogLine(many=True)
    next_cursor = serializers.CharField(help_text="Where to go on; never empty, for a log may go on.")
    agent_log = inline_serializer(
        "AgentLog",
        {
            "status": serializers.CharField(),
            "detail": serializers.CharField(),
            "size": serializers.IntegerField(allow_null=True),
            "last_written": serializers.DateTimeField(allow_null=True),
            "stale": serializers.BooleanField(allow_null=True),
        },
    )
    gaps = serializers.ListField(child=serializers.DictField(), help_text="Always empty: a history has no gaps.")
    follow = inline_serializer(
        "LogFollow",
        {
            "ends": serializers.BooleanField(help_text="Nothing more comes unless somebody asks something of the session."),
            "why": serializers.CharField(),
            "poll_after_s": serializers.IntegerField(help_text="0: there is more now, or nothing will come."),
        },
    )


class LogView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_logs",
        tags=["sessions"],
        summary="Read a session's log, oldest line first",
        description="Poll it from next_cursor until follow.ends. It holds no command and no output of one.",
        parameters=page_parameters(bounds.DEFAULT_EVENT_PAGE, bounds.EVENT_PAGE),
        responses={200: enveloped(LogPage), **errors(400, 401, 403, 404, 409, 426)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        query = request.query_params
        after = pages.whole(query, "cursor", default=0, allowed=_NUMBERS)
        limit = pages.whole(query, "limit", default=bounds.DEFAULT_EVENT_PAGE, allowed=bounds.EVENT_PAGE)
        session = sessions.find(self.account, session_id)
        log = session_log.read(session, after=after, limit=limit)
        wait = 0 if log.ends or len(log.lines) == limit else POLL_SECONDS
        words = {
            "runtime_state": session.runtime_state,
            "entries": log.lines,
            "next_cursor": log.cursor,
            "agent_log": AGENT_LOG,
            "gaps": [],
            "follow": {"ends": log.ends, "why": log.why, "poll_after_s": wait},
        }
        return self.answer(LogPage(words).data)
