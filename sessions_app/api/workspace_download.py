"""A running session's workspace as one archive."""

from django.db import close_old_connections
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request

from sessions_app.api import pages
from sessions_app.api.envelope import Shape
from sessions_app.api.schema import PROTOCOL, errors
from sessions_app.api.streaming import streamed
from sessions_app.api.view import ApiView
from sessions_app.services import bounds, workspace_download
from sessions_app.services import session as sessions

LEFT_OUT = "X-KS-Left-Out"


class WorkspaceDownloadView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_workspace",
        tags=["workspaces"],
        summary="Download a session's workspace, or a directory of it, as a tar",
        description=f"At most {bounds.DOWNLOAD_BYTES} bytes and {bounds.DOWNLOAD_ENTRIES} entries of a session that runs; none is woken. "
        f"Plain files and directories: {LEFT_OUT} counts what is left out. Its length and digest are not known before its end; a tar that "
        "was cut short has no end mark.",
        parameters=[
            OpenApiParameter("path", str, description="A directory below the workspace; absent: all of it."),
            OpenApiParameter("gzip", bool, description="1: gzipped."),
            PROTOCOL,
        ],
        responses={
            (200, "application/x-tar"): OpenApiResponse(OpenApiTypes.BINARY, "The tar"),
            (200, "application/gzip"): OpenApiResponse(OpenApiTypes.BINARY, "The tar, gzipped"),
            **errors(400, 401, 403, 404, 409, 413, 426, 503, 504),
        },
    )
    def get(self, request: Request, session_id: str) -> StreamingHttpResponse:
        packed = pages.flag(request.query_params, "gzip")
        session = sessions.find(self.account, session_id)
        found = workspace_download.survey(session, request.query_params.get("path", ""))
        tar = workspace_download.tar(session, found)
        pieces = workspace_download.zipped(tar) if packed else tar
        response = streamed(pieces, status=200, media_type="application/gzip" if packed else "application/x-tar")
        response["Cache-Control"] = "no-store"
        response["Content-Disposition"] = "attachment"
        response[LEFT_OUT] = ", ".join(f"{word}={found.left_out[word]}" for word in workspace_download.LEFT_OUT)
        close_old_connections()  # the answer may take long, and one that is cut short would not give the connection back
        return response
