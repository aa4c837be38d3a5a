"""The fork tree around a session."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Known
from sessions_app.api.schema import enveloped, errors
from sessions_app.api.view import ApiView
from sessions_app.services import lineage
from sessions_app.services import session as sessions
from sessions_app.services.lineage import Member
from sessions_app.states import SessionState


class MemberRow(serializers.Serializer[Member]):
    """A session of the tree. One that is deleted is named and placed; what it was called and how far it came is gone with it."""

    session_id = serializers.CharField(source="session.id")
    short_id = serializers.CharField(source="session.short_id")
    name = serializers.SerializerMethodField()
    generation = serializers.IntegerField(help_text="0: the session itself; -1: its parent; 1: its children.")
    parent = Known(source="session.parent_id")  # type: ignore[assignment]  # a field of that name, not the framework's attribute
    fork_checkpoint_id = Known(source="session.fork_checkpoint_id", help_text="The parent's checkpoint that it began with.")
    fork_event_watermark = serializers.IntegerField(
        source="session.fork_watermark", allow_null=True, help_text="The parent's last event that is also its own."
    )
    runtime_state = serializers.CharField(source="session.runtime_state")
    deleted = serializers.SerializerMethodField()
    execution_epoch = serializers.SerializerMethodField()
    event_count = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField(source="session.created_at")

    def get_deleted(self, member: Member) -> bool:
        return member.session.runtime_state == SessionState.DELETED

    def get_name(self, member: Member) -> str | None:
        return None if self.get_deleted(member) else member.session.name or None

    def get_execution_epoch(self, member: Member) -> int | None:
        return None if self.get_deleted(member) else member.session.epoch

    def get_event_count(self, member: Member) -> int | None:
        return None if self.get_deleted(member) else member.session.event_count


class LineageRow(serializers.Serializer[Any]):
    session_id = serializers.CharField()
    ancestors = MemberRow(many=True, help_text=f"The nearest first, {lineage.GENERATIONS} at most.")
    session = MemberRow()
    descendants = MemberRow(many=True, help_text=f"By generation, {lineage.DESCENDANTS} at most.")
    more_ancestors = serializers.BooleanField()
    more_descendants = serializers.BooleanField()
    unknown_ancestor_id = serializers.CharField(allow_null=True, help_text="Named as a parent, and not known here.")


class LineageView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_lineage",
        tags=["sessions"],
        summary="Read the fork tree around a session",
        description="Bounded; what is cut off is said. To see further, read the lineage of a member at the edge.",
        responses={200: enveloped(LineageRow), **errors(401, 403, 404, 409, 426)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        found = lineage.of(sessions.find(self.account, session_id))
        words = {
            "session_id": found.session.id,
            "ancestors": found.ancestors,
            "session": Member(found.session, 0),
            "descendants": found.descendants,
            "more_ancestors": found.more_ancestors,
            "more_descendants": found.more_descendants,
            "unknown_ancestor_id": found.unknown_ancestor_id,
        }
        return self.answer(LineageRow(words).data)
