"""Files of a session's workspace: list, read, write, download."""

import base64
import hashlib
import re
from typing import Any

from django.db import close_old_connections, transaction
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import pages, ranges, raw
from sessions_app.api.envelope import Shape
from sessions_app.api.schema import PROTOCOL, enveloped, errors
from sessions_app.api.streaming import streamed
from sessions_app.api.view import ApiView
from sessions_app.errors import Invalid
from sessions_app.services import bounds, event, files, guest_path
from sessions_app.services import session as sessions
from sessions_app.services.guest_files import Entry

REFUSALS = (400, 401, 403, 404, 409, 426, 503, 504)
_MODE = re.compile(r"0?[0-7]{3}")
_OFFSETS = range(2**50)
PATH = OpenApiParameter("path", str, required=True, description="Relative to the workspace: no leading '/', no '..'.")


class FileEntry(serializers.Serializer[Entry]):
    name = serializers.CharField(help_text="What is not printable is escaped; such a name is no path.")
    type = serializers.CharField(help_text="file, dir, link or other; links are not followed.")
    size = serializers.IntegerField()
    mode = serializers.CharField(help_text="Permission bits in octal.")
    mtime = serializers.IntegerField(help_text="Seconds since 1970.")
    redacted = serializers.BooleanField(help_text="Its name is one that usually holds credentials: its content is not given out.")


class FileList(serializers.Serializer[Any]):
    session_id = serializers.CharField()
    root = serializers.CharField(  # type: ignore[assignment]  # a field of that name, not the framework's attribute
        help_text="The workspace, as an absolute path in the machine."
    )
    path = serializers.CharField()
    is_dir = serializers.BooleanField(help_text="false: the path is a file, and the one entry is its own.")
    entries = FileEntry(many=True)
    truncated = serializers.BooleanField()
    total = serializers.IntegerField()


class FileContent(serializers.Serializer[Any]):
    session_id = serializers.CharField()
    path = serializers.CharField()
    size = serializers.IntegerField(help_text="Of the whole file.")
    offset = serializers.IntegerField()
    returned = serializers.IntegerField()
    truncated = serializers.BooleanField(help_text="The file goes on after what was returned.")
    mtime = serializers.IntegerField()
    sha256_returned = serializers.CharField()
    content_b64 = serializers.CharField(allow_blank=True)


class FileWritten(serializers.Serializer[Any]):
    session_id = serializers.CharField()
    path = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField()
    mode = serializers.CharField()
    mtime = serializers.IntegerField()


class FileListView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_files",
        tags=["files"],
        summary="List a directory of the workspace",
        description="Relative to the directory in which commands start. A session that does not run is not woken.",
        parameters=[OpenApiParameter("path", str, description="Absent or '.': the workspace itself."), PROTOCOL],
        responses={200: enveloped(FileList), **errors(*REFUSALS)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        session = sessions.find(self.account, session_id)
        root, path, found = files.listing(session, request.query_params.get("path", ""))
        entries = [_row(path if found.is_dir else path.rpartition("/")[0], entry) for entry in found.entries]
        cut = found.total > len(entries)
        facts = {"root": root, "path": path or ".", "is_dir": found.is_dir, "entries": entries, "truncated": cut, "total": found.total}
        return self.answer(FileList({"session_id": session.id, **facts}).data)


class FileContentView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_file_read",
        tags=["files"],
        summary="Read up to 1 MiB of a file",
        parameters=[
            PATH,
            OpenApiParameter("max_bytes", int, description=f"1 to {bounds.FILE_READ_BYTES}, by default {bounds.FILE_READ_BYTES}."),
            OpenApiParameter("offset", int, description="Where to begin; absent: 0."),
            PROTOCOL,
        ],
        responses={200: enveloped(FileContent), **errors(*REFUSALS)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        query = request.query_params
        count = pages.whole(query, "max_bytes", default=bounds.FILE_READ_BYTES, allowed=range(1, bounds.FILE_READ_BYTES + 1))
        offset = pages.whole(query, "offset", default=0, allowed=_OFFSETS)
        session = sessions.find(self.account, session_id)
        path, piece = files.content(session, _path(request), offset=offset, count=count)
        facts = {"path": path, "size": piece.size, "offset": offset, "returned": len(piece.data), "mtime": piece.mtime}
        facts |= {"truncated": offset + len(piece.data) < piece.size, "sha256_returned": hashlib.sha256(piece.data).hexdigest()}
        return self.answer(FileContent({"session_id": session.id, **facts, "content_b64": base64.b64encode(piece.data).decode()}).data)

    @extend_schema(
        operation_id="session_file_write",
        tags=["files"],
        summary="Write a file: whole, or not at all",
        description=f"The body is the file's bytes, at most {bounds.UPLOAD_BYTES}. It gets its name once all of it has arrived, on the "
        "machine's disk. Its directory must exist. A symbolic link is neither written through nor replaced. Repeating it is harmless.",
        parameters=[
            PATH,
            OpenApiParameter("mode", str, description="Permission bits in octal, such as 644; absent: as they were, or 644."),
            raw.ANNOUNCED,
            OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER, description="`*`: only where there is no such file."),
            PROTOCOL,
        ],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={200: enveloped(FileWritten), **errors(*REFUSALS, 412, 413)},
    )
    def put(self, request: Request, session_id: str) -> Response:
        wanted, mode = raw.announced_sha256(request), request.query_params.get("mode")
        if mode is not None and not _MODE.fullmatch(mode):
            raise Invalid("mode is three octal digits, such as 644. Nothing was written.")
        if request.headers.get("If-None-Match", "*").strip() != "*":
            raise Invalid("If-None-Match is * or absent. Nothing was written.")
        session = sessions.find(self.account, session_id)
        stored = files.write(
            session,
            _path(request),
            raw.pieces(request),
            mode=None if mode is None else int(mode, 8),
            sha256=wanted,
            only_new="If-None-Match" in request.headers,
        )
        facts = {"path": stored.path, "size": stored.written.size, "sha256": stored.sha256}
        with transaction.atomic():
            event.append(session.id, "file.written", facts, source=f"api/{self.token.prefix}")
        row = {"session_id": session.id, **facts, "mode": f"{stored.written.mode:04o}", "mtime": stored.written.mtime}
        return self.answer(FileWritten(row).data)


class FileDownloadView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_file_download",
        tags=["files"],
        summary="Download a file, or a range of it",
        description=f"At most {bounds.DOWNLOAD_BYTES} bytes. The ETag and {raw.SHA256_HEADER} are the whole file's, absent above "
        f"{bounds.HASHED_BYTES} bytes. A file that changes under way ends the answer short of its Content-Length.",
        parameters=[
            PATH,
            OpenApiParameter("Range", str, OpenApiParameter.HEADER, description="One range of bytes."),
            OpenApiParameter("If-Range", str, OpenApiParameter.HEADER, description="An ETag of an earlier answer."),
            PROTOCOL,
        ],
        responses={
            (200, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY, "The file"),
            (206, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY, "The range"),
            **errors(*REFUSALS, 413, 416),
        },
    )
    def get(self, request: Request, session_id: str) -> StreamingHttpResponse:
        session = sessions.find(self.account, session_id)
        found = files.download(session, _path(request), choose=lambda size, sha256: ranges.chosen(request, size, sha256))
        partial = (found.start, found.stop) != (0, found.size)
        response = streamed(found.pieces, status=206 if partial else 200)
        response["Content-Length"] = str(found.stop - found.start)
        response["Accept-Ranges"] = "bytes"
        response["Cache-Control"] = "no-store"
        response["Content-Disposition"] = "attachment"
        if partial:
            response["Content-Range"] = f"bytes {found.start}-{found.stop - 1}/{found.size}"
        if found.sha256 is not None:
            response["ETag"], response[raw.SHA256_HEADER] = ranges.entity_tag(found.sha256), found.sha256
        close_old_connections()  # the answer may take long, and one that is cut short would not give the connection back
        return response


def _row(directory: str, entry: Entry) -> dict[str, Any]:
    path = f"{directory}/{entry.name}" if directory else entry.name
    secret = entry.type != "dir" and guest_path.is_secret(path)
    return {**vars(entry), "mode": f"{entry.mode:04o}", "redacted": secret}


def _path(request: Request) -> str:
    path = request.query_params.get("path", "")
    if not path:
        raise Invalid("The query names no path. Nothing was done.", next_action="Add ?path=, relative to the workspace.")
    return path
