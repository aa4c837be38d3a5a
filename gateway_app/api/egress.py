"""Where a session's machine may connect to."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_app.egress.policy import Rule
from gateway_app.models import EgressLine, EgressPolicy
from gateway_app.services import egress, egress_use
from gateway_app.services.egress_use import EgressUse
from gateway_app.states import EgressMode, EgressOutcome
from sessions_app.api import body
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Text, Whole
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors
from sessions_app.services import session as sessions
from sessions_app.services.recorded import Answer


class RuleFields(Body):
    host = Text(max_length=255, help_text="A public host's name in lower case, or *.name for all names below it. No addresses.")
    ports = serializers.ListField(child=Whole(), max_length=egress.MOST_PORTS, help_text="1 to 65535.")


class EgressWanted(Body):
    mode = Text(max_length=12, help_text=f"One of: {', '.join(EgressMode)}.")
    rules = RuleFields(many=True, required=False, default=list)
    expected_revision = Whole(help_text="The policy's revision as it was read; 0 before it is first set.")


class RuleRow(serializers.Serializer[Any]):
    host = serializers.CharField()
    ports = serializers.ListField(child=serializers.IntegerField())


class EgressLineRow(serializers.Serializer[EgressLine]):
    host = serializers.CharField(help_text="Empty: none was named, or too many were.")
    port = serializers.IntegerField()
    outcome = serializers.ChoiceField(choices=[*EgressOutcome])
    connections = serializers.IntegerField()
    sent_bytes = serializers.IntegerField()
    received_bytes = serializers.IntegerField()
    last_at = serializers.DateTimeField()


class EgressUseRow(serializers.Serializer[EgressUse]):
    """Sums over the session's life, some seconds behind, and the newest hosts that its machine asked for."""

    connections = serializers.IntegerField()
    refusals = serializers.IntegerField()
    sent_bytes = serializers.IntegerField()
    received_bytes = serializers.IntegerField()
    lines = EgressLineRow(many=True)


class EgressRow(serializers.Serializer[EgressPolicy]):
    session_id = serializers.CharField()
    mode = serializers.ChoiceField(choices=[*EgressMode])
    rules = RuleRow(many=True)
    revision = serializers.IntegerField()
    changed_at = serializers.SerializerMethodField(help_text="null: it was never set.")
    use = serializers.SerializerMethodField()

    @extend_schema_field(EgressUseRow)
    def get_use(self, policy: EgressPolicy) -> dict[str, Any]:
        return dict(EgressUseRow(egress_use.of_session(policy.session)).data)

    def get_changed_at(self, policy: EgressPolicy) -> str | None:
        return policy.changed_at.isoformat().replace("+00:00", "Z") if policy.revision else None


class EgressView(RecordedView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_egress_read",
        tags=["sessions"],
        summary="Read where a session's machine may connect to, and what it did",
        responses={200: enveloped(EgressRow), **errors(401, 403, 404, 409, 426, 429)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        return self.answer(EgressRow(egress.of_session(sessions.find(self.account, session_id))).data)

    @extend_schema(
        operation_id="session_egress_set",
        tags=["sessions"],
        summary="Set where a session's machine may connect to",
        description="The whole policy. Private, link-local and metadata addresses are reached by no rule, whatever a name resolves to.",
        parameters=[KEY, PROTOCOL],
        request=EgressWanted,
        responses={200: enveloped(EgressRow), **errors(400, 401, 403, 404, 409, 413, 415, 426, 429)},
        examples=[
            OpenApiExample(
                "one host",
                value={"mode": "allow_list", "rules": [{"host": "example.com", "ports": [443]}], "expected_revision": 0},
                request_only=True,
            )
        ],
    )
    def put(self, request: Request, session_id: str) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(EgressWanted, data)
            rules = [Rule(one["host"], tuple(one["ports"])) for one in wanted["rules"]]
            found = sessions.find(self.account, session_id)
            policy = egress.change(found, wanted["mode"], rules, expected_revision=wanted["expected_revision"], actor=self.token.id)
            return Answer(dict(EgressRow(policy).data), session_id=found.id)

        return self.record(request, do)
