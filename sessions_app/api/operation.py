"""Operations as clients read them."""

from collections.abc import Callable
from typing import Any

from django.urls import Resolver404, resolve
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import pages
from sessions_app.api.auth import ACCOUNT
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Known, Moment
from sessions_app.api.schema import enveloped, errors, page_of, page_parameters
from sessions_app.api.view import ApiView
from sessions_app.errors import Invalid
from sessions_app.models import Operation, RecordedRequest
from sessions_app.roles import Scope
from sessions_app.services import bounds, cancel, operation_list, recorded, waiting
from sessions_app.services import operation as operations
from sessions_app.services import session as sessions
from sessions_app.services import token as tokens
from sessions_app.states import CANCELLING, OperationKind, OperationState, WaitsFor


class OperationRow(serializers.Serializer[Operation]):
    """`response` is what the mutation answers when it has succeeded, `error` why it has not; one of them at most is set."""

    operation_id = serializers.CharField(source="id")
    kind = serializers.CharField(help_text=f"One of: {', '.join(OperationKind)}; or request, for what was done at once.")
    state = serializers.SerializerMethodField(help_text=f"One of: {', '.join([*OperationState, CANCELLING])}.")
    session_id = serializers.CharField(allow_null=True)
    progress = serializers.SerializerMethodField(
        help_text="What is known of its way. While no host can take it: waiting, with for (one of: "
        f"{', '.join(WaitsFor)}), reason in words, and since."
    )
    http_status = serializers.IntegerField(allow_null=True)
    response = serializers.SerializerMethodField()
    error = serializers.JSONField(allow_null=True)
    method = Known()
    path = Known()
    accepted_at = Moment()
    started_at = Moment(allow_null=True)
    finished_at = Moment(allow_null=True)
    resource_ids = serializers.SerializerMethodField()
    reconciliation_state = serializers.SerializerMethodField()
    attempt = serializers.IntegerField()

    def get_state(self, operation: Operation) -> str:
        return cancel.shown_state(operation)

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_progress(self, operation: Operation) -> dict[str, Any]:
        return waiting.shown_progress(operation)

    @extend_schema_field(OpenApiTypes.ANY)
    def get_response(self, operation: Operation) -> Any:
        """In the words of the route that asked for it: what a client that polls reads is what one that waited was answered."""
        return operation.response and _words_of(operation)(operation.response)

    def get_resource_ids(self, operation: Operation) -> dict[str, str]:
        return {"session_id": operation.session_id}

    def get_reconciliation_state(self, operation: Operation) -> str | None:
        return "required" if operation.state == OperationState.RECONCILIATION_REQUIRED else None


class OperationView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="operation_read",
        tags=["operations"],
        summary="Read an operation",
        description="By its id or by the Idempotency-Key of the request that asked for it. Poll it until its state is final.",
        responses={200: enveloped(OperationRow), **errors(400, 401, 403, 404, 426)},
    )
    def get(self, request: Request, operation_id: str) -> Response:
        done_at_once = recorded.find(self.account, operation_id)
        if done_at_once is not None:
            tokens.require(self.token, _asked_by(done_at_once.path).needs.writing or Scope.SESSIONS_READ)
            return self.answer(_recorded_words(done_at_once))
        return self.answer(OperationRow(operations.find(self.account, operation_id)).data)


class _Unknown(ApiView):
    """Stands for a route of an earlier version, or for a path that was cut: only who manages the account may read what it answered."""

    needs = ACCOUNT


def _asked_by(path: str) -> type[ApiView]:
    """The view of that path: what it answered is read by whoever may ask it."""
    try:
        view = getattr(resolve(path).func, "view_class", _Unknown) if path else _Unknown
    except Resolver404:
        view = _Unknown
    return view if issubclass(view, ApiView) else _Unknown


def _words_of(operation: Operation) -> Callable[[Any], Any]:
    words: Callable[[Any], Any] = getattr(_asked_by(operation.path)(), "words", lambda response: response)
    return words


class OperationListView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="operation_list",
        tags=["operations"],
        summary="List operations, newest first",
        parameters=[
            OpenApiParameter("session_id", str, description="Only those of this session."),
            OpenApiParameter("state", str, enum=list(OperationState), description="Only those in this state."),
            *page_parameters(bounds.DEFAULT_PAGE, bounds.PAGE),
        ],
        responses={200: page_of(OperationRow), **errors(400, 401, 403, 404, 409, 426)},
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        state = query.get("state", "")
        if state and state not in list(OperationState):
            raise Invalid(f"state is one of: {', '.join(OperationState)}.")
        page = operation_list.page(
            self.account,
            session=sessions.find(self.account, query["session_id"]) if query.get("session_id") else None,
            state=OperationState(state) if state else None,
            limit=pages.whole(query, "limit", default=bounds.DEFAULT_PAGE, allowed=bounds.PAGE),
            cursor=query.get("cursor", ""),
        )
        return self.answer(pages.rendered(page, OperationRow))


def _recorded_words(request: RecordedRequest) -> dict[str, Any]:
    """A mutation that was done at once, in an operation's words: what a client asks after when the answer did not reach it."""
    return {
        "operation_id": request.key,
        "kind": "request",
        "state": OperationState.SUCCEEDED.value,
        "session_id": request.session_id or None,
        "progress": {},
        "http_status": request.status,
        "response": request.answer,
        "error": None,
        "method": request.method,
        "path": request.path,
        "accepted_at": request.created_at,
        "started_at": request.created_at,
        "finished_at": request.created_at,
        "resource_ids": {"session_id": request.session_id} if request.session_id else {},
        "reconciliation_state": None,
        "attempt": 1,
    }


def operation_words(operation: Operation | None) -> dict[str, Any] | None:
    """The operation that a session is busy with, in a session's row."""
    if operation is None:
        return None
    return {
        "id": operation.id,
        "kind": operation.kind,
        "state": cancel.shown_state(operation),
        "progress": waiting.shown_progress(operation) or None,
    }
