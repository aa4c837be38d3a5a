"""The v2 fork routes: plan, then execute exactly the plan."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Text, Whole
from sessions_app.api.idempotency import MutationView, RecordedView
from sessions_app.api.operation import OperationRow
from sessions_app.api.schema import KEY, MUTATION, PROTOCOL, enveloped, errors
from sessions_app.api.session import REFUSALS
from sessions_app.models import Operation, Plan
from sessions_app.services import bounds, fork_plan
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.services.recorded import Answer


class ForkWanted(Body):
    checkpoint_id = Text(max_length=40, help_text="A valid checkpoint of this session. None is chosen for you.")
    children = Whole(default=1, help_text=f"{bounds.FORK_CHILDREN.start} to {bounds.FORK_CHILDREN.stop - 1}; absent: 1.")


class ForkDecision(Body):
    plan_id = Text(required=False, default="", max_length=40)
    plan_digest = Text(required=False, default="", max_length=64, help_text="Of the plan, whole: consent to exactly what it showed.")


class ForkPlanRow(serializers.Serializer[Plan]):
    """What a fork would make. `state` is planned, until it is executed or expires."""

    id = serializers.CharField()
    checkpoint_id = serializers.CharField(source="content.checkpoint_id")
    children = serializers.IntegerField(source="content.children")
    plan = serializers.DictField(source="content.plan", help_text="By section; each is a text, or facts with their effect.")
    plan_digest = serializers.CharField(source="digest")
    state = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()

    def get_state(self, plan: Plan) -> str:
        return "executed" if plan.executed_at else "planned"


class PlannedChild(serializers.Serializer[Any]):
    """A child and what became of its resume: one that does not run yet, or whose resume failed, is parked at the checkpoint."""

    session_id = serializers.CharField()
    name = serializers.CharField(allow_null=True)
    runtime_state = serializers.CharField()
    key_bindings = serializers.DictField()
    agents = serializers.ListField(child=serializers.DictField(), help_text="Agents are not of this version.")
    checkpoint_id = serializers.CharField()
    resume_operation_id = serializers.CharField()
    resume_state = serializers.CharField(help_text="The state of that operation.")
    error = serializers.DictField(allow_null=True, help_text="Why it does not run, as far as that is known.")


class Forked(serializers.Serializer[Any]):
    plan_id = serializers.CharField()
    children = PlannedChild(many=True)
    note = serializers.CharField()


class ForkPlanView(RecordedView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_fork_plan",
        tags=["sessions"],
        summary="Plan a fork",
        description="Creates nothing. The plan lives for a quarter of an hour, and only as long as the session stays at its revision.",
        parameters=[KEY, PROTOCOL],
        request=ForkWanted,
        responses={201: enveloped(ForkPlanRow), **errors(400, 401, 403, 404, 409, 413, 415, 426)},
        examples=[OpenApiExample("two", value={"checkpoint_id": "ck_0123456789abcdef01234567", "children": 2}, request_only=True)],
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(ForkWanted, data)
            made = fork_plan.make(sessions.find(self.account, session_id), **wanted)
            return Answer(dict(ForkPlanRow(made).data), 201)

        return self.record(request, do)


class ForkByPlanView(MutationView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_fork_by_plan",
        tags=["sessions"],
        summary="Execute a fork's plan",
        description="All children are created, or none. A plan whose session or checkpoint has moved is refused, never made anew.",
        parameters=MUTATION,
        request=ForkDecision,
        responses={201: enveloped(Forked), 202: enveloped(OperationRow), **errors(*REFUSALS)},
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(asked: Asked, data: Any) -> Operation:
            wanted = body.checked(ForkDecision, data)
            return fork_plan.execute(sessions.find(self.account, session_id), asked=asked, **wanted)

        return self.mutate(request, do)
