"""Archives that sessions begin with: sent as raw bytes, listed, dropped."""

import tempfile
from collections.abc import Callable
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, idempotency, raw
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors, page_of
from sessions_app.archive.canonical import READERS
from sessions_app.services import bounds, recorded, workspace
from sessions_app.services.operation import Asked
from sessions_app.services.recorded import Answer


class WorkspaceRow(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="What POST /api/sessions takes as Workspace, once.")
    sha256 = serializers.CharField(help_text="Of the bytes that were sent.")
    size = serializers.IntegerField(help_text="Of the bytes that were sent.")
    files = serializers.IntegerField()
    content_bytes = serializers.IntegerField(help_text="Of all files, unpacked.")
    expires_at = serializers.DateTimeField()


class Dropped(serializers.Serializer[Any]):
    id = serializers.CharField()
    deleted = serializers.BooleanField()


class WorkspacesView(RecordedView):
    shape = Shape.V2

    @extend_schema(
        operation_id="workspaces",
        tags=["workspaces"],
        summary="List the archives that wait for a session",
        responses={200: page_of(WorkspaceRow), **errors(401, 403, 426)},
    )
    def get(self, request: Request) -> Response:
        waiting = workspace.waiting(self.account)
        return self.answer({"items": WorkspaceRow(waiting, many=True).data, "next_cursor": ""})

    @extend_schema(
        operation_id="workspace_upload",
        tags=["workspaces"],
        summary="Upload an archive that a session will begin with",
        description=f"The body is the archive, at most {bounds.WORKSPACE_BYTES} bytes: plain files and directories under relative "
        f"names, at most {bounds.WORKSPACE_FILES} files and {bounds.WORKSPACE_UNPACKED_BYTES} bytes unpacked. It is kept sealed for a day, "
        "for one session.",
        parameters=[raw.ANNOUNCED, KEY, PROTOCOL],
        request=dict.fromkeys(READERS, OpenApiTypes.BINARY),
        responses={201: enveloped(WorkspaceRow), **errors(400, 401, 403, 409, 413, 415, 422, 426, 503)},
    )
    def post(self, request: Request) -> Response:
        media_type, announced = workspace.require_type(request.content_type or ""), raw.announced_sha256(request)
        with tempfile.TemporaryFile() as sent:
            sha256, size = workspace.spool(raw.pieces(request), sent, announced)
            asked = idempotency.asked(request, {"sha256": sha256, "media_type": media_type})

            def pack() -> workspace.Received:
                return workspace.pack(sent, media_type, sha256, size)

            return self.record_asked(asked, self._keep(asked, pack))

    def _keep(self, asked: Asked, pack: Callable[[], workspace.Received]) -> Callable[[], Answer]:
        """Packing takes long: it is done before the transaction, and not at all for a request that was answered before."""
        known = asked.idempotency_key is not None and recorded.find(self.account, asked.idempotency_key) is not None
        received = None if known else pack()

        def keep() -> Answer:
            with received or pack() as ours:
                return Answer(WorkspaceRow(workspace.keep(self.account, ours)).data, status=201)

        return keep


class WorkspaceView(RecordedView):
    shape = Shape.V2

    @extend_schema(
        operation_id="workspace_drop",
        tags=["workspaces"],
        summary="Drop an archive that waits for a session",
        request=None,
        parameters=[KEY, PROTOCOL],
        responses={200: enveloped(Dropped), **errors(400, 401, 403, 404, 413, 415, 426)},
    )
    def delete(self, request: Request, workspace_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            workspace.drop(self.account, workspace_id)
            return Answer({"id": workspace_id, "deleted": True})

        return self.record(request, do)
