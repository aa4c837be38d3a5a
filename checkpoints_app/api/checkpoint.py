"""A session's saved points, as clients read them."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint_list
from checkpoints_app.states import CLIENT_WORDS, VOCABULARIES
from sessions_app.api import pages
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Known
from sessions_app.api.schema import errors, page_of, page_parameters
from sessions_app.api.view import ApiView
from sessions_app.services import bounds
from sessions_app.services import session as sessions

MANIFEST_VERSION = 1
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
    reason = Known()
    created_at = serializers.DateTimeField()
    published_at = serializers.DateTimeField(allow_null=True)
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
