"""A session's saved points, as clients read them."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint_list, naming, removal
from checkpoints_app.states import CLIENT_WORDS, VOCABULARIES, CheckpointState
from sessions_app.api import body, pages
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Known, Moment, Text
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors, page_of, page_parameters
from sessions_app.api.view import ApiView
from sessions_app.models import Session
from sessions_app.services import bounds
from sessions_app.services import session as sessions
from sessions_app.services.recorded import Answer

MANIFEST_VERSION = 1
WRITE = errors(400, 401, 403, 404, 409, 413, 415, 426, 429)
WHOLE_SESSION = "whole_session"


class CheckpointRow(serializers.Serializer[Checkpoint]):
    """A saved point. Sizes in bytes; a figure that is not known is null. Only `valid` can be resumed from."""

    id = serializers.CharField()
    session_id = serializers.CharField()
    fleet_checkpoint_id = serializers.CharField(source="id")
    content_manifest_hash = Known(source="content_digest")
    manifest_version = serializers.SerializerMethodField()
    state = serializers.SerializerMethodField(help_text=f"One of: {', '.join(VOCABULARIES['checkpoint'])}.")
    boundary = serializers.CharField()
    attempt_id = serializers.SerializerMethodField(method_name="absent")
    task_id = serializers.SerializerMethodField(method_name="absent")
    source_epoch = serializers.IntegerField()
    task_watermark = serializers.SerializerMethodField(method_name="absent")
    event_watermark = serializers.IntegerField(help_text="The last event that lies before it.")
    pending_effect_receipts = serializers.SerializerMethodField()
    scope = serializers.SerializerMethodField(help_text="A resume from it takes the whole session back.")
    name = Known(help_text="Its owner's name for it; a named one never expires.")
    held_at = Moment(allow_null=True, help_text="Since when an operator holds it; a held one never expires.")
    hold_reason = Known()
    reason = Known()
    created_at = Moment()
    published_at = Moment(allow_null=True)
    parent_checkpoint_id = Known(source="parent_id")
    pause_seconds = serializers.FloatField(allow_null=True)
    logical_bytes = serializers.IntegerField(allow_null=True)
    written_bytes = serializers.IntegerField(allow_null=True)
    unique_bytes = serializers.IntegerField(allow_null=True)
    stored_bytes = serializers.IntegerField(allow_null=True)
    failure = serializers.JSONField(allow_null=True)

    def get_manifest_version(self, checkpoint: Checkpoint) -> int:
        return MANIFEST_VERSION

    def get_state(self, checkpoint: Checkpoint) -> str:
        return CLIENT_WORDS.get(checkpoint.state, checkpoint.state)

    def absent(self, checkpoint: Checkpoint) -> str | None:
        """Tasks are not of this version."""
        return None

    def get_pending_effect_receipts(self, checkpoint: Checkpoint) -> list[str]:
        return []

    def get_scope(self, checkpoint: Checkpoint) -> str:
        return WHOLE_SESSION


class Naming(Body):
    name = Text(allow_blank=True, max_length=48, help_text="1 to 48 letters, digits, - or _, a letter first; empty: no name.")


class Removed(serializers.Serializer[Any]):
    id = serializers.CharField()
    session_id = serializers.CharField()
    deleted = serializers.BooleanField()
    content_purge = serializers.CharField(help_text="pending: taken from everybody, erased within minutes; done: nothing of it is stored.")
    head_checkpoint_id = serializers.CharField(allow_null=True, help_text="What the session resumes from now.")


class CheckpointView(RecordedView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_checkpoint_read",
        tags=["checkpoints"],
        summary="Read a saved point",
        responses={200: enveloped(CheckpointRow), **errors(401, 403, 404, 409, 426, 429)},
    )
    def get(self, request: Request, session_id: str, checkpoint_id: str) -> Response:
        session = sessions.find(self.account, session_id)
        return self.answer(CheckpointRow(checkpoint_list.find(session, checkpoint_id)).data)

    @extend_schema(
        operation_id="session_checkpoint_name",
        tags=["checkpoints"],
        summary="Name a saved point, or take its name away",
        description="A named point never expires. A request for the name that it has changes nothing.",
        parameters=[KEY, PROTOCOL],
        request=Naming,
        responses={200: enveloped(CheckpointRow), **WRITE},
        examples=[OpenApiExample("a name", value={"name": "before-upgrade"}, request_only=True)],
    )
    def patch(self, request: Request, session_id: str, checkpoint_id: str) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(Naming, data)
            row = naming.rename(sessions.find(self.account, session_id), checkpoint_id, wanted["name"])
            return Answer(dict(CheckpointRow(row).data))

        return self.record(request, do)

    @extend_schema(
        operation_id="session_checkpoint_delete",
        tags=["checkpoints"],
        summary="Delete a saved point",
        description=(
            "It can be restored by nobody from this answer on, and its content is erased within minutes. What other points share with it "
            "stays. Refused for one that an operation or a machine needs, and for the last valid one of a session that does not run."
        ),
        parameters=[KEY, PROTOCOL],
        request=None,
        responses={200: enveloped(Removed), **WRITE},
    )
    def delete(self, request: Request, session_id: str, checkpoint_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            session = sessions.find(self.account, session_id)
            return Answer(_removed(removal.delete(session, checkpoint_id), session))

        return self.record(request, do)


def _removed(row: Checkpoint, session: Session) -> dict[str, Any]:
    session.refresh_from_db()
    return {
        "id": row.id,
        "session_id": session.id,
        "deleted": True,
        "content_purge": "done" if row.state == CheckpointState.ERASED else "pending",
        "head_checkpoint_id": session.head_checkpoint_id or None,
    }


class CheckpointListView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_checkpoints",
        tags=["checkpoints"],
        summary="List a session's saved points, newest first",
        description="Failed ones stay visible with their reason and are never offered for a resume.",
        parameters=page_parameters(bounds.DEFAULT_PAGE, bounds.PAGE),
        responses={200: page_of(CheckpointRow), **errors(400, 401, 403, 404, 409, 426)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        limit = pages.whole(request.query_params, "limit", default=bounds.DEFAULT_PAGE, allowed=bounds.PAGE)
        session = sessions.find(self.account, session_id)
        page = checkpoint_list.page(session, limit=limit, cursor=request.query_params.get("cursor", ""))
        return self.answer(pages.rendered(page, CheckpointRow))
