"""Mutations: one effect per Idempotency-Key, and an answer that is the outcome, or the operation that will have one."""

from collections.abc import Callable
from typing import Any

from django.http import QueryDict
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body
from sessions_app.api.envelope import Shape, failure, success
from sessions_app.api.operation import OperationRow
from sessions_app.api.view import ApiView
from sessions_app.errors import Invalid
from sessions_app.models import Operation
from sessions_app.services import operation as operations
from sessions_app.services import recorded, wait
from sessions_app.services.operation import Asked
from sessions_app.services.recorded import Answer
from sessions_app.states import OPERATION_ACTIVE, OperationState

#: How long an answer waits for the outcome unless the client prefers not to: less than clients give a whole response (30 s).
WAIT_SECONDS = 25.0
REPLAYED = "KS-Operation-Replayed"
_ASYNC = "respond-async"


def asked(request: Request, data: Any) -> Asked:
    """What decides whether a later request is the same one: method, path, query and body, under the key. Raises Invalid for a bad key."""
    return Asked(
        method=str(request.method), path=request.path[:300], idempotency_key=key(request), body=_content(request.query_params, data)
    )


def key(request: Request) -> str | None:
    text = request.headers.get("Idempotency-Key")
    if text is None or operations.KEY.fullmatch(text):
        return text
    raise Invalid(
        "An Idempotency-Key is 8 to 100 visible ASCII characters. Nothing was done.",
        next_action="Send one such as ksop_ and 32 hex digits, or leave it out.",
    )


def _content(query: QueryDict, data: Any) -> Any:
    return {"query": sorted((name, query.getlist(name)) for name in query), "body": data} if query else data


def prefers_async(request: Request) -> bool:
    preferences = request.headers.get("Prefer", "").split(",")
    return any(preference.partition(";")[0].strip().lower() == _ASYNC for preference in preferences)


class RecordedView(ApiView):
    """A route whose effect is no operation: done at once, and recorded with its answer under the request's key."""

    def record(self, request: Request, do: Callable[[Any], Answer]) -> Response:
        """Answer as the key's earlier request was answered, or do it once, in a transaction. `do` gets the body, validates and acts."""
        data = body.read(request)
        return self.record_asked(asked(request, data), lambda: do(data))

    def record_asked(self, asked: Asked, do: Callable[[], Answer]) -> Response:
        """The same for a body that was read already."""
        answer, replayed = recorded.once(self.account, asked, do)
        told = {**answer.data, **answer.told_once} if answer.told_once else answer.data
        response = self.answer(told, answer.status)
        if replayed:
            response[REPLAYED] = "true"
        return response


class MutationView(ApiView):
    """A route whose effect is an operation."""

    def words(self, response: dict[str, Any]) -> dict[str, Any]:
        """The operation's stored response in this route's words."""
        return response

    def mutate(self, request: Request, do: Callable[[Asked, Any], Operation]) -> Response:
        """Answer from the key's earlier operation, or do it once and answer with its outcome.

        `do` gets the request as asked and its body, validates, and accepts. It is not called for a repeated request: whatever the first one
        changed must not refuse the second.
        """
        data = body.read(request)
        operation, replayed = operations.once(self.account, asked(request, data), lambda one: do(one, data))
        if not replayed and not prefers_async(request):
            operation = wait.until_ended(operation, WAIT_SECONDS)
        response = self._accepted(request, operation) if operation.state in OPERATION_ACTIVE else self._ended(operation)
        if replayed:
            response[REPLAYED] = "true"
        return response

    def _accepted(self, request: Request, operation: Operation) -> Response:
        response = Response(success(Shape.V2, OperationRow(operation).data), status=202)
        response["Location"] = f"/api/operations/{operation.id}"
        if prefers_async(request):
            response["Preference-Applied"] = _ASYNC
        return response

    def _ended(self, operation: Operation) -> Response:
        if operation.state == OperationState.SUCCEEDED:
            return Response(success(self.shape, self.words(operation.response or {})), status=operation.http_status or 200)
        error = {"operation_id": operation.id, **(operation.error or {})}
        return Response(failure(self.shape, error), status=operation.http_status or 500)
