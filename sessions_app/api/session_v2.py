"""The v2 session routes: list, read, delete, pause, resume."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, pages
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Text
from sessions_app.api.idempotency import MutationView
from sessions_app.api.operation import OperationRow
from sessions_app.api.record import RecordCreate, RenameView
from sessions_app.api.schema import MUTATION, enveloped, errors, page_of, page_parameters
from sessions_app.api.session import REFUSALS
from sessions_app.api.session_deletion import DeleteView
from sessions_app.api.session_row import RecordRow, SessionRow, context
from sessions_app.errors import Invalid
from sessions_app.models import Operation
from sessions_app.services import bounds, session_list
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.states import SessionState

FLEET = "fleet"
#: The published client's word for a session that is gone.
DEAD = "dead"


class Pause(Body):
    reason = Text(required=False, allow_blank=True, default="")


class WakeFrom(Body):
    checkpoint_id = Text(required=False, max_length=40, help_text="A valid checkpoint of this session; absent: the last one.")


class Paused(serializers.Serializer[Any]):
    runtime_state = serializers.CharField()
    checkpoint_safe = serializers.BooleanField()
    checkpoint_id = serializers.CharField()
    note = serializers.CharField()


class Resumed(serializers.Serializer[Any]):
    runtime_state = serializers.CharField()
    execution_epoch = serializers.IntegerField()
    checkpoint_id = serializers.CharField()
    note = serializers.CharField()


class SessionListView(RecordCreate):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_list",
        tags=["sessions"],
        summary="List sessions, newest activity first",
        parameters=[
            OpenApiParameter("source", str, enum=[FLEET], description="fleet: rows by machine id; absent: by record id."),
            OpenApiParameter("state", str, enum=[*SessionState, DEAD], description="Only sessions in this state; dead stands for deleted."),
            OpenApiParameter("all", bool, description="1: deleted sessions too."),
            *page_parameters(bounds.DEFAULT_PAGE, bounds.PAGE),
        ],
        responses={200: page_of(SessionRow), **errors(400, 401, 403, 426)},
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        if query.get("source", FLEET) != FLEET:
            raise Invalid("source is fleet, or left out.")
        page = session_list.page(
            self.account,
            limit=pages.whole(query, "limit", default=bounds.DEFAULT_PAGE, allowed=bounds.PAGE),
            cursor=query.get("cursor", ""),
            state=_state(query),
            deleted_too=pages.flag(query, "all"),
        )
        rows = SessionRow if query.get("source") else RecordRow
        return self.answer(pages.rendered(page, rows, **context(page.items)))


class SessionReadView(RenameView, DeleteView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_read",
        tags=["sessions"],
        summary="Read a session",
        description="By its full id, record id, short id, or a prefix that only it has.",
        responses={200: enveloped(SessionRow), **errors(401, 403, 404, 409, 426)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        session = sessions.find(self.account, session_id)
        return self.answer(SessionRow(session, context=context([session])).data)


class PauseView(MutationView):
    shape = Shape.V2

    def words(self, response: dict[str, Any]) -> dict[str, Any]:
        note = "The work is saved and the machine is stopped. Nothing runs until the session is resumed."
        return {**response, "runtime_state": response.get("state"), "checkpoint_safe": True, "note": note}

    @extend_schema(
        operation_id="session_pause",
        tags=["sessions"],
        summary="Save a session, then stop its machine",
        parameters=MUTATION,
        request=Pause,
        responses={200: enveloped(Paused), 202: enveloped(OperationRow), **errors(*REFUSALS)},
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(asked: Asked, data: Any) -> Operation:
            wanted = body.checked(Pause, data)
            return sessions.checkpoint(sessions.find(self.account, session_id), stop=True, reason=wanted["reason"], asked=asked)

        return self.mutate(request, do)


class ResumeView(MutationView):
    shape = Shape.V2

    def words(self, response: dict[str, Any]) -> dict[str, Any]:
        return {
            **response,
            "runtime_state": response.get("state"),
            "note": "The session's work goes on from the checkpoint, in a new epoch.",
        }

    @extend_schema(
        operation_id="session_resume_v2",
        tags=["sessions"],
        summary="Resume a session from a checkpoint",
        parameters=MUTATION,
        request=WakeFrom,
        responses={200: enveloped(Resumed), 202: enveloped(OperationRow), **errors(*REFUSALS)},
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(asked: Asked, data: Any) -> Operation:
            wanted = body.checked(WakeFrom, data)
            return sessions.resume(sessions.find(self.account, session_id), checkpoint_id=wanted.get("checkpoint_id"), asked=asked)

        return self.mutate(request, do)


def _state(query: Mapping[str, str]) -> SessionState | None:
    text = query.get("state", "")
    if not text:
        return None
    if text == DEAD:
        return SessionState.DELETED
    if text not in list(SessionState):
        raise Invalid(f"state is one of: {', '.join([*SessionState, DEAD])}.")
    return SessionState(text)
