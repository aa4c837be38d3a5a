"""Ask for an operation to be cancelled."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.operation import OperationRow
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors
from sessions_app.services import cancel
from sessions_app.services import operation as operations
from sessions_app.services.recorded import Answer
from sessions_app.states import OPERATION_ACTIVE


class OperationCancelView(RecordedView):
    shape = Shape.V2

    @extend_schema(
        operation_id="operation_cancel",
        tags=["operations"],
        summary="Ask for an operation to be cancelled",
        description=(
            "What has not begun ends at once (200, `cancelled`). What runs is asked to stop (202, `cancelling`): read it until it has "
            "ended. Whatever finishes first wins, and complete effects are not undone. Safe to repeat. What has ended, and what cannot be "
            "cancelled, refuses by name."
        ),
        parameters=[KEY, PROTOCOL],
        request=None,
        responses={200: enveloped(OperationRow), 202: enveloped(OperationRow), **errors(400, 401, 403, 404, 409, 413, 415, 426)},
    )
    def post(self, request: Request, operation_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            operation = cancel.cancel(operations.find(self.account, operation_id))
            status = 202 if operation.state in OPERATION_ACTIVE else 200
            return Answer(dict(OperationRow(operation).data), status, session_id=operation.session_id)

        return self.record(request, do)
