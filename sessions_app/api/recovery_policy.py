"""What a session's owner wants to become of it when its host or its machine is lost."""

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, idempotency
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Flag, Whole
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors
from sessions_app.api.view import ApiView
from sessions_app.services import recovery_policy
from sessions_app.services import session as sessions
from sessions_app.services.recovery_policy import LIMIT, WITHIN, Recovery

NOTE = (
    f"A session goes on from its last checkpoint; what its machine did since is lost. After {LIMIT} such resumes within "
    f"{int(WITHIN.total_seconds() // 60)} minutes it stays failed. A guest that shut down or panicked by itself is not resumed."
)


class RecoveryPolicyChange(Body):
    on_host_loss = Flag(required=False, help_text="Resume elsewhere when the host is lost. Absent: as it is, at first true.")
    on_machine_loss = Flag(
        required=False, help_text="Resume when the machine's process was killed or its hypervisor failed. Absent: as it is, at first false."
    )
    expected_revision = Whole(help_text="The session's revision as it was read; another one refuses the change.")


class RecoveryPolicyRow(serializers.Serializer[Recovery]):
    """What is done by itself after a loss."""

    on_host_loss = serializers.BooleanField(source="policy.on_host_loss")
    on_machine_loss = serializers.BooleanField(source="policy.on_machine_loss")
    resumed_lately = serializers.IntegerField(help_text="Resumes after a loss that count against the limit now.")
    note = serializers.SerializerMethodField()
    session_revision = serializers.IntegerField()

    def get_note(self, _: Recovery) -> str:
        return NOTE


class RecoveryPolicyView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_recovery_policy",
        tags=["sessions"],
        summary="Read what becomes of a session whose host or machine is lost",
        responses={200: enveloped(RecoveryPolicyRow), **errors(401, 403, 404, 409, 426)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        return self.answer(RecoveryPolicyRow(recovery_policy.read(sessions.find(self.account, session_id))).data)

    @extend_schema(
        operation_id="session_recovery_policy_change",
        tags=["sessions"],
        summary="Choose what becomes of a session whose host or machine is lost",
        description="Resumes nothing by itself. A request that asks for what is so already changes nothing, so it may be repeated.",
        parameters=[KEY, PROTOCOL],
        request=RecoveryPolicyChange,
        responses={200: enveloped(RecoveryPolicyRow), **errors(400, 401, 403, 404, 409, 413, 415, 426)},
        examples=[OpenApiExample("on", value={"on_machine_loss": True, "expected_revision": 4}, request_only=True)],
    )
    def put(self, request: Request, session_id: str) -> Response:
        idempotency.key(request)
        wanted = body.checked(RecoveryPolicyChange, body.read(request))
        session = sessions.find(self.account, session_id)
        changed = recovery_policy.change(session, **{"on_host_loss": None, "on_machine_loss": None, **wanted})
        return self.answer(RecoveryPolicyRow(changed).data)
