"""Delete a session by plan: what it would erase is shown first; then only the plan's id carries it out."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Text
from sessions_app.api.idempotency import MutationView, RecordedView
from sessions_app.api.operation import OperationRow
from sessions_app.api.schema import KEY, MUTATION, PROTOCOL, enveloped, errors
from sessions_app.api.session import REFUSALS
from sessions_app.models import Operation
from sessions_app.services import session as sessions
from sessions_app.services import session_deletion
from sessions_app.services.operation import Asked
from sessions_app.services.recorded import Answer

PLAN_ID = OpenApiParameter("plan_id", str, description="Of the deletion plan that was just read.")


class Confirm(Body):
    confirm = Text(required=False, max_length=64, help_text="What a person typed: the session's id, short id or record id.")


class DeletionPlan(serializers.Serializer[Any]):
    """`plan.stored_bytes_only_here` is null where others need a part of what the session holds; `stored_bytes_at_least` is known."""

    id = serializers.CharField()
    expires_at = serializers.DateTimeField()
    plan = serializers.DictField()
    plan_digest = serializers.CharField()


class RuntimeCleanup(serializers.Serializer[Any]):
    runtime_stop = serializers.DictField(help_text="`state`: done; or pending, where the session's host was silent.")
    content_purge = serializers.DictField(help_text="`state`: done; with counts of what was erased.")


class Deleted(serializers.Serializer[Any]):
    """The machine's end and the purge of content are told apart. Agents and tasks are not of this version: null."""

    deleted = serializers.BooleanField()
    executed_at = serializers.DateTimeField()
    session_id = serializers.CharField()
    runtime_cleanup = RuntimeCleanup()
    retention = serializers.DictField()
    operations_ended = serializers.IntegerField(allow_null=True, help_text="Other work on the session that the deletion ended.")
    tasks_cancelled = serializers.IntegerField(allow_null=True)
    agents_removed = serializers.IntegerField(allow_null=True)
    results_deleted = serializers.IntegerField(allow_null=True)


class DeletionPlanView(RecordedView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_deletion_plan",
        tags=["sessions"],
        summary="Show what deleting a session would erase",
        description="Changes nothing. The plan serves once, until it expires, and while the session gets no checkpoint, fork or machine.",
        parameters=[KEY, PROTOCOL],
        request=Body,
        responses={201: enveloped(DeletionPlan), **errors(400, 401, 403, 404, 409, 413, 415, 426)},
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            session = sessions.find(self.account, session_id)
            made = session_deletion.make_plan(session)
            words = {"id": made.id, "expires_at": made.expires_at, "plan": made.content, "plan_digest": made.digest}
            return Answer(dict(DeletionPlan(words).data), 201, session_id=session.id)

        return self.record(request, do)


class DeleteView(MutationView):
    """The DELETE of a session's path."""

    shape = Shape.V2

    def words(self, response: dict[str, Any]) -> dict[str, Any]:
        cleanup = {"runtime_stop": response.get("runtime_stop"), "content_purge": response.get("content_purge")}
        return {
            "deleted": response.get("deleted"),
            "executed_at": response.get("executed_at"),
            "session_id": response.get("id"),
            "runtime_cleanup": cleanup,
            "retention": session_deletion.RETENTION,
            "operations_ended": response.get("operations_ended"),
            "tasks_cancelled": None,
            "agents_removed": None,
            "results_deleted": None,
        }

    @extend_schema(
        operation_id="session_delete_v2",
        tags=["sessions"],
        summary="Delete a session as planned",
        description="From any state, and final once it is accepted: whatever else is at work on the session is ended.",
        parameters=[*MUTATION, PLAN_ID],
        request=Confirm,
        responses={200: enveloped(Deleted), 202: enveloped(OperationRow), **errors(*REFUSALS)},
    )
    def delete(self, request: Request, session_id: str) -> Response:
        def do(asked: Asked, data: Any) -> Operation:
            typed = body.checked(Confirm, data).get("confirm")
            plan_id = request.query_params.get("plan_id", "")
            return session_deletion.execute(sessions.find(self.account, session_id), plan_id=plan_id, confirm=typed, asked=asked)

        return self.mutate(request, do)
