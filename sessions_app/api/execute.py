"""One command in the guest."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body
from sessions_app.api.body import Body
from sessions_app.api.fields import Text, Whole
from sessions_app.api.idempotency import MutationView
from sessions_app.api.operation import OperationRow
from sessions_app.api.schema import MUTATION, enveloped, errors
from sessions_app.errors import Invalid
from sessions_app.models import Operation
from sessions_app.services import bounds
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked

SHELL = ["/bin/sh", "-c"]


class Command(Body):
    Cmd = Text(required=False, help_text="One line for the guest's shell.")
    Argv = serializers.ListField(
        child=Text(allow_blank=True),
        required=False,
        max_length=bounds.EXEC_WORDS,
        help_text="A program and its arguments, without a shell.",
    )
    Timeout = Whole(
        required=False,
        help_text=f"Seconds, {bounds.EXEC_SECONDS.start} to {bounds.EXEC_SECONDS.stop - 1}; absent: {bounds.DEFAULT_EXEC_SECONDS}.",
    )


class CommandOutcome(serializers.Serializer[Any]):
    """The command's own failure is told by its exit code, not by the HTTP status."""

    output = serializers.CharField(help_text="Both streams, standard output first.")
    error = serializers.CharField(allow_blank=True, help_text="Empty for exit code 0.")
    exit_code = serializers.IntegerField(allow_null=True, help_text="null: ended by a signal or at its time limit.")
    stdout = serializers.CharField()
    stderr = serializers.CharField()
    truncated = serializers.BooleanField()
    timed_out = serializers.BooleanField()
    duration_seconds = serializers.FloatField()


class ExecView(MutationView):
    @extend_schema(
        operation_id="session_exec",
        tags=["sessions"],
        summary="Run one command as root in the guest",
        description="Exactly one of Cmd and Argv. A session that does not run is not woken.",
        parameters=MUTATION,
        request=Command,
        responses={
            200: CommandOutcome,
            202: enveloped(OperationRow),
            **errors(400, 401, 403, 404, 409, 413, 415, 426, 500, 503, 504, v2=False),
        },
        examples=[OpenApiExample("without a shell", value={"Argv": ["python3", "-c", "print(6 * 7)"], "Timeout": 10}, request_only=True)],
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(asked: Asked, data: Any) -> Operation:
            wanted = body.checked(Command, data)
            timeout = wanted.get("Timeout", bounds.DEFAULT_EXEC_SECONDS)
            return sessions.execute(sessions.find(self.account, session_id), argv=_argv(wanted), timeout_seconds=timeout, asked=asked)

        return self.mutate(request, do)


def _argv(wanted: dict[str, Any]) -> list[str]:
    if ("Cmd" in wanted) == ("Argv" in wanted):
        raise Invalid("Give exactly one of Cmd and Argv. Nothing was run.")
    return [*SHELL, wanted["Cmd"]] if "Cmd" in wanted else list(wanted["Argv"])
