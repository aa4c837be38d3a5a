"""Restore a session from a named checkpoint."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Text, Whole
from sessions_app.api.idempotency import MutationView
from sessions_app.api.operation import OperationRow
from sessions_app.api.record import Phase
from sessions_app.api.schema import MUTATION, enveloped, errors
from sessions_app.api.session import REFUSALS
from sessions_app.models import Operation
from sessions_app.services import bounds, restore
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.services.restore import Wanted


class RestoreWanted(Body):
    checkpoint_id = Text(max_length=40, help_text="A valid checkpoint of this session. None is chosen for you.")
    reason = Text(max_length=bounds.REASON_CHARACTERS, help_text="Why; it is kept in the history.")
    expected_revision = Whole(help_text="The session's revision as it was read.")
    epoch = Whole(help_text="The session's execution_epoch as it was read.")
    accept_affected_digest = Text(
        required=False, allow_null=True, max_length=64, help_text="Of the list that a ks_restore_scope refusal gave: leave exactly that."
    )


class Restored(serializers.Serializer[Any]):
    session_id = serializers.CharField()
    checkpoint_id = serializers.CharField()
    scope = serializers.CharField()
    phases = Phase(many=True, help_text=f"In their order: {', '.join(restore.PHASES)}.")
    stopped_at = serializers.CharField(allow_null=True)
    new_epoch = serializers.IntegerField()
    runtime_state = serializers.CharField()
    superseded_attempts = serializers.ListField(child=serializers.CharField())
    hold_id = serializers.CharField(allow_null=True)
    note = serializers.CharField()
    continuation = serializers.CharField(help_text="exact_runtime, none or unknown.")
    continuation_note = serializers.CharField()
    stack_compatibility = serializers.CharField(help_text="compatible, incompatible or unknown.")


class RestoreView(MutationView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_restore",
        tags=["sessions"],
        summary="Restore a session from a checkpoint",
        description=(
            "The whole session goes back; nothing that is recorded is rolled back. A running machine is ended without a save once the "
            "checkpoint's content has been verified. Work that is later than the checkpoint refuses it as ks_restore_scope, with the list "
            "and its digest. A restore that stops carries phases, stopped_at and continuation in its error."
        ),
        parameters=MUTATION,
        request=RestoreWanted,
        responses={200: enveloped(Restored), 202: enveloped(OperationRow), **errors(*REFUSALS)},
        examples=[
            OpenApiExample(
                "back",
                value={"checkpoint_id": "ck_0123456789abcdef01234567", "reason": "wrong branch", "expected_revision": 8, "epoch": 2},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(asked: Asked, data: Any) -> Operation:
            given = body.checked(RestoreWanted, data)
            accepted = given.pop("accept_affected_digest", None)
            return restore.ask(sessions.find(self.account, session_id), Wanted(**given, accepted=accepted), asked)

        return self.mutate(request, do)
