"""A session's record before and beside its machine: made without one, given one, renamed."""

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
from sessions_app.api.session_row import SessionRow, context
from sessions_app.errors import Conflict
from sessions_app.models import Operation, Session
from sessions_app.services import bounds, provision
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.services.recorded import Answer
from sessions_app.services.session import Wanted

PLAIN = "plain"
REVISION = "The session's revision as it was read; another one refuses the request."
NAME = "1 to 48 letters, digits, '-' or '_', beginning with a letter."


class Record(Body):
    name = Text(required=False, help_text=NAME)
    mode = Text(required=False, max_length=20, help_text=f"{PLAIN} or absent. Sessions of mode agent are refused: this version has none.")
    primary_agent_name = Text(required=False, max_length=100, help_text="Refused: this version has no agents.")
    image = Text(required=False, max_length=bounds.IMAGE_CHARACTERS, help_text="An image's name; absent: the default.")
    budget = Whole(required=False, help_text=f"Tokens; absent: {bounds.DEFAULT_BUDGET_TOKENS}.")
    memory_mib = Whole(required=False, help_text=f"{bounds.MEMORY_MIB.start} to {bounds.MEMORY_MIB.stop - 1}; absent: the image's default.")
    cpus = Whole(required=False, help_text=f"{bounds.CPUS.start} to {bounds.CPUS.stop - 1}; absent: 1.")
    workspace = Text(
        required=False, max_length=40, help_text="The id of an archive (POST /api/v2/workspaces) that its workspace begins with."
    )


class Provision(Body):
    expected_revision = Whole(help_text=REVISION)
    budget = Whole(required=False, help_text="Tokens; absent: as the record has it.")


class Rename(Body):
    name = Text(help_text=NAME)
    expected_revision = Whole(help_text=REVISION)


class Phase(serializers.Serializer[Any]):
    phase = serializers.CharField()
    done = serializers.BooleanField()
    detail = serializers.CharField()


class Provisioned(serializers.Serializer[Any]):
    """A record whose machine answers. A failed start is an error, and leaves no machine behind."""

    session_id = serializers.CharField()
    agent_id = serializers.CharField(allow_null=True)
    runtime_state = serializers.CharField()
    execution_epoch = serializers.IntegerField()
    phases = Phase(many=True)
    ready = serializers.BooleanField()
    agent_activity = serializers.CharField(allow_null=True)
    cleaned_up = serializers.BooleanField(help_text="Whether something had to be removed again; never, where the machine runs.")
    note = serializers.CharField()


def row(session: Session) -> dict[str, Any]:
    return dict(SessionRow(session, context=context([session])).data)


class RecordCreate(RecordedView):
    """The POST of the list's path."""

    shape = Shape.V2

    @extend_schema(
        operation_id="session_record",
        tags=["sessions"],
        summary="Make a session's record, without a machine",
        description="The session waits, `provisioning`, until it is provisioned or deleted. Nothing runs or is reserved.",
        parameters=[KEY, PROTOCOL],
        request=Record,
        responses={201: enveloped(SessionRow), **errors(400, 401, 403, 404, 409, 413, 415, 426)},
        examples=[OpenApiExample("a small one", value={"name": "first", "image": "tiny"}, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        return self.record(request, self._made)

    def _made(self, data: Any) -> Answer:
        wanted = body.checked(Record, data)
        _require_plain(wanted)
        session = provision.record(
            self.account,
            Wanted(
                image=wanted.get("image"),
                name=wanted.get("name", ""),
                memory_mib=wanted.get("memory_mib"),
                cpus=wanted.get("cpus", 1),
                budget_tokens=wanted.get("budget"),
                workspace_id=wanted.get("workspace"),
            ),
        )
        return Answer(row(session), 201, session_id=session.id)


class RenameView(RecordedView):
    """The PATCH of a session's path."""

    shape = Shape.V2

    @extend_schema(
        operation_id="session_rename",
        tags=["sessions"],
        summary="Rename a session",
        description="A label alone: names need not be unique, and nothing else changes. Asking for the name that it has changes nothing.",
        parameters=[KEY, PROTOCOL],
        request=Rename,
        responses={200: enveloped(SessionRow), **errors(400, 401, 403, 404, 409, 413, 415, 426)},
        examples=[OpenApiExample("a new name", value={"name": "second", "expected_revision": 4}, request_only=True)],
    )
    def patch(self, request: Request, session_id: str) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(Rename, data)
            found = sessions.find(self.account, session_id)
            renamed = provision.rename(found, wanted["name"], expected_revision=wanted["expected_revision"])
            return Answer(row(renamed), session_id=renamed.id)

        return self.record(request, do)


class ProvisionView(MutationView):
    shape = Shape.V2

    def words(self, response: dict[str, Any]) -> dict[str, Any]:
        return {
            "session_id": response.get("id"),
            "agent_id": None,
            "runtime_state": response.get("state"),
            "execution_epoch": response.get("execution_epoch"),
            "phases": [
                {"phase": "place", "done": True, "detail": "A host with room took it."},
                {"phase": "boot", "done": True, "detail": f"The image {response.get('image')} runs and its guest answers."},
            ],
            "ready": True,
            "agent_activity": None,
            "cleaned_up": False,
            "note": "The machine runs and its time counts. There is no agent in it: this version has none.",
        }

    @extend_schema(
        operation_id="session_provision",
        tags=["sessions"],
        summary="Give a record its machine",
        parameters=MUTATION,
        request=Provision,
        responses={201: enveloped(Provisioned), 202: enveloped(OperationRow), **errors(*REFUSALS)},
        examples=[OpenApiExample("as it was read", value={"expected_revision": 1}, request_only=True)],
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(asked: Asked, data: Any) -> Operation:
            wanted = body.checked(Provision, data)
            found = sessions.find(self.account, session_id)
            return provision.provision(
                found, expected_revision=wanted["expected_revision"], budget_tokens=wanted.get("budget"), asked=asked
            )

        return self.mutate(request, do)


def _require_plain(wanted: dict[str, Any]) -> None:
    if wanted.get("mode", PLAIN) != PLAIN or "primary_agent_name" in wanted:
        raise Conflict(
            "This version has no agents in sessions. Nothing was created.",
            next_action="Leave mode and primary_agent_name out: a plain session runs any program of yours.",
            code="ks_agents_not_served",
        )
