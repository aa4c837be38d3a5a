"""The plain session routes: start, save, resume, delete. Their bodies have capitalised keys, as the wire contract has them."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, pages
from sessions_app.api.body import Body
from sessions_app.api.fields import Flag, Text, Whole
from sessions_app.api.idempotency import MutationView
from sessions_app.api.operation import OperationRow
from sessions_app.api.schema import MUTATION, enveloped, errors
from sessions_app.models import Operation
from sessions_app.services import bounds, session_deletion
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from sessions_app.states import ResumeMode

REFUSALS = (400, 401, 403, 404, 409, 413, 415, 422, 426, 500, 503)


class Start(Body):
    Image = Text(
        required=False, max_length=bounds.IMAGE_CHARACTERS, help_text="An image's name; absent: the default. It decides the architecture."
    )
    Budget = Whole(required=False, help_text=f"Tokens; absent: {bounds.DEFAULT_BUDGET_TOKENS}.")
    Name = Text(required=False, help_text="1 to 48 letters, digits, '-' or '_', beginning with a letter.")
    Memory = Whole(
        required=False, help_text=f"MiB, {bounds.MEMORY_MIB.start} to {bounds.MEMORY_MIB.stop - 1}; absent: the image's default."
    )
    Workspace = Text(
        required=False, max_length=40, help_text="The id of an archive (POST /api/v2/workspaces) that its workspace begins with."
    )
    Cpus = Whole(required=False, help_text=f"{bounds.CPUS.start} to {bounds.CPUS.stop - 1}; absent: 1.")


class Save(Body):
    Stop = Flag(default=False, help_text="Park the machine once the save is published.")
    Reason = Text(required=False, allow_blank=True, default="", help_text=f"At most {bounds.REASON_CHARACTERS} characters.")


class Wake(Body):
    Checkpoint = Text(required=False, max_length=40, help_text="A valid checkpoint of this session; absent: the last one.")
    Mode = serializers.ChoiceField(
        choices=[*ResumeMode],
        required=False,
        help_text="How memory that its host has not assembled comes back: whole before it runs, or behind it. Absent: as the host is set.",
    )


class Outcome(serializers.Serializer[Any]):
    """A session after a mutation; a save and a resume add their figures."""

    id = serializers.CharField()
    short_id = serializers.CharField()
    image = serializers.CharField()
    state = serializers.CharField()
    execution_epoch = serializers.IntegerField()
    checkpoint_id = serializers.CharField(required=False)
    images_from = serializers.CharField(required=False, help_text="Of a resume: cached, host or store.")
    fetched_bytes = serializers.IntegerField(
        required=False, allow_null=True, help_text="Of a resume: what came from a store elsewhere; null where that is not known."
    )
    verifying = serializers.BooleanField(required=False, help_text="Of a resume: whether its machine runs ahead of its verification.")


class Gone(serializers.Serializer[Any]):
    """The machine's end and the purge of its content are told apart."""

    id = serializers.CharField()
    state = serializers.CharField()
    deleted = serializers.BooleanField()
    runtime_stop = serializers.DictField()
    content_purge = serializers.DictField()


class SessionsView(MutationView):
    @extend_schema(
        operation_id="session_start",
        tags=["sessions"],
        summary="Start a session",
        parameters=MUTATION,
        request=Start,
        responses={201: Outcome, 202: enveloped(OperationRow), **errors(*REFUSALS, v2=False)},
        examples=[OpenApiExample("a small one", value={"Image": "tiny", "Name": "first", "Budget": 100000}, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        return self.mutate(request, self._start)

    def _start(self, asked: Asked, data: Any) -> Operation:
        wanted = body.checked(Start, data)
        return sessions.create(
            self.account,
            Wanted(
                image=wanted.get("Image"),
                name=wanted.get("Name", ""),
                memory_mib=wanted.get("Memory"),
                cpus=wanted.get("Cpus", 1),
                budget_tokens=wanted.get("Budget"),
                workspace_id=wanted.get("Workspace"),
            ),
            asked,
        )


class SessionView(MutationView):
    @extend_schema(
        operation_id="session_delete",
        tags=["sessions"],
        summary="End a session and erase what only it held",
        description="Refused while nothing of the session is saved, unless forced. Final once it is accepted, whatever else is at work.",
        parameters=[*MUTATION, OpenApiParameter("force", bool, description="1: delete even if no checkpoint exists.")],
        request=None,
        responses={200: Gone, 202: enveloped(OperationRow), **errors(*REFUSALS, v2=False)},
    )
    def delete(self, request: Request, session_id: str) -> Response:
        def do(asked: Asked, data: Any) -> Operation:
            body.checked(Body, data)
            force = pages.flag(request.query_params, "force")
            return session_deletion.ask(sessions.find(self.account, session_id), force=force, asked=asked)

        return self.mutate(request, do)


class CheckpointView(MutationView):
    @extend_schema(
        operation_id="session_checkpoint",
        tags=["sessions"],
        summary="Save a running session",
        description="With Stop the machine is parked once the save is published. If a save fails, the machine runs on.",
        parameters=MUTATION,
        request=Save,
        responses={200: Outcome, 202: enveloped(OperationRow), **errors(*REFUSALS, v2=False)},
        examples=[OpenApiExample("save and park", value={"Stop": True, "Reason": "end of day"}, request_only=True)],
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(asked: Asked, data: Any) -> Operation:
            wanted = body.checked(Save, data)
            return sessions.checkpoint(sessions.find(self.account, session_id), stop=wanted["Stop"], reason=wanted["Reason"], asked=asked)

        return self.mutate(request, do)


class ResumeView(MutationView):
    @extend_schema(
        operation_id="session_resume",
        tags=["sessions"],
        summary="Resume a session from a checkpoint",
        parameters=MUTATION,
        request=Wake,
        responses={200: Outcome, 202: enveloped(OperationRow), **errors(*REFUSALS, v2=False)},
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(asked: Asked, data: Any) -> Operation:
            wanted = body.checked(Wake, data)
            found = sessions.find(self.account, session_id)
            return sessions.resume(found, checkpoint_id=wanted.get("Checkpoint"), mode=wanted.get("Mode"), asked=asked)

        return self.mutate(request, do)
