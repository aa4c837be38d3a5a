"""The plain fork route: children of one checkpoint, running."""

import json
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, pages
from sessions_app.api.body import Body
from sessions_app.api.fields import Text
from sessions_app.api.idempotency import MutationView
from sessions_app.api.operation import OperationRow
from sessions_app.api.schema import MUTATION, enveloped, errors
from sessions_app.api.session import REFUSALS
from sessions_app.errors import Invalid
from sessions_app.models import Operation
from sessions_app.services import bounds, fork
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked

N = OpenApiParameter(
    "n", int, description=f"How many children: {bounds.FORK_CHILDREN.start} to {bounds.FORK_CHILDREN.stop - 1}, by default 1."
)
STEERS = OpenApiParameter(
    "steers",
    str,
    description="A JSON array of texts, one for each child or one for all: put into the child's next model call, and no other.",
)


class Fork(Body):
    Checkpoint = Text(
        required=False,
        max_length=40,
        help_text="A valid checkpoint of this session; absent: a running session is saved first, of another its last one is taken.",
    )


class Child(serializers.Serializer[Any]):
    """A child and what became of its resume: one that does not run yet, or whose resume failed, is parked at the checkpoint."""

    id = serializers.CharField()
    parent = serializers.CharField()  # type: ignore[assignment]  # a field of that name, not the framework's attribute
    short_id = serializers.CharField()
    state = serializers.CharField()
    checkpoint_id = serializers.CharField()
    resume_operation_id = serializers.CharField()
    resume_state = serializers.CharField(help_text="The state of that operation.")
    error = serializers.DictField(allow_null=True, help_text="Why it does not run, as far as that is known.")


class ForkView(MutationView):
    @extend_schema(
        operation_id="session_fork",
        tags=["sessions"],
        summary="Branch a checkpoint into running children",
        description="All children are created, or none. Each is a session of its own: deleting its parent or a sibling does not touch it.",
        parameters=[*MUTATION, N, STEERS],
        request=Fork,
        responses={201: Child(many=True), 202: enveloped(OperationRow), **errors(*REFUSALS, v2=False)},
        examples=[OpenApiExample("of a named checkpoint", value={"Checkpoint": "ck_0123456789abcdef01234567"}, request_only=True)],
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(asked: Asked, data: Any) -> Operation:
            wanted = body.checked(Fork, data)
            children = pages.whole(request.query_params, "n", default=1, allowed=bounds.FORK_CHILDREN)
            steers = _steers(request.query_params.get("steers", ""))
            session = sessions.find(self.account, session_id)
            return fork.ask(session, children=children, checkpoint_id=wanted.get("Checkpoint"), asked=asked, steers=steers)

        return self.mutate(request, do)


def _steers(text: str) -> list[str]:
    try:
        steers = json.loads(text) if text else []
        json.dumps(steers, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Invalid("steers is not valid JSON. Nothing was created.") from error
    if not isinstance(steers, list) or not all(isinstance(steer, str) for steer in steers):
        raise Invalid("steers is a JSON array of texts. Nothing was created.")
    return steers
