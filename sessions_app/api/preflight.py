"""What a run needs and lacks, before anything of it is made."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, idempotency
from sessions_app.api.auth import SESSIONS_READ
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Text, Whole
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors
from sessions_app.api.view import ApiView
from sessions_app.services import bounds, capability, preflight
from sessions_app.services.preflight import Outcome, Planned

RESERVATION = "Nothing was created, uploaded or reserved: what passes now may be taken before the run begins."
_LADDER = 20


class Preflight(Body):
    provider = Text(required=False, max_length=40)
    mode = Text(required=False, max_length=20)
    image = Text(required=False, max_length=bounds.IMAGE_CHARACTERS, help_text="Absent: the default.")
    memory_mib = Whole(required=False, min_value=1, max_value=bounds.MEMORY_MIB.stop, help_text="Absent: the image's default.")
    workspace_bytes = Whole(required=False, min_value=0, max_value=2**63 - 1)
    workspace_files = Whole(required=False, min_value=0, max_value=2**63 - 1)
    check_command = Text(required=False, allow_blank=True, max_length=bounds.EXEC_BYTES)
    ladder = serializers.ListField(child=serializers.JSONField(), required=False, max_length=_LADDER)


class PreflightCheck(serializers.Serializer[Any]):
    check = serializers.CharField()
    status = serializers.ChoiceField(choices=[*Outcome])
    detail = serializers.CharField()
    category = serializers.CharField()
    next_action = serializers.CharField(allow_blank=True)


class PreflightWords(serializers.Serializer[Any]):
    account_id = serializers.CharField()
    cohort_state = serializers.CharField(allow_null=True)
    credit_microusd = serializers.IntegerField(allow_null=True)
    registry_version = serializers.CharField()
    checks = PreflightCheck(many=True)
    ready = serializers.BooleanField(help_text="Nothing blocks, as far as it was checked.")
    not_checked = serializers.ListField(child=serializers.CharField(), help_text="What could not be judged, and why.")
    reservation = serializers.CharField()


class PreflightView(ApiView):
    shape = Shape.V2
    needs = SESSIONS_READ

    @extend_schema(
        operation_id="preflight",
        tags=["discovery"],
        summary="Ask what a run needs and lacks",
        description="Creates, writes and reserves nothing.",
        parameters=[KEY, PROTOCOL],
        request=Preflight,
        responses={200: enveloped(PreflightWords), **errors(400, 401, 403, 413, 415, 426)},
        examples=[OpenApiExample("a small run", value={"image": "tiny", "workspace_bytes": 1000, "workspace_files": 3}, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        idempotency.key(request)
        wanted = body.checked(Preflight, body.read(request))
        found = preflight.look(self.token, Planned(**{**wanted, "ladder": tuple(wanted.get("ladder", ()))}))
        words = {
            "account_id": self.account.id,
            "cohort_state": None,
            "credit_microusd": None,
            "registry_version": capability.document()["registry_version"],
            "checks": found.checks,
            "ready": found.ready,
            "not_checked": found.not_checked,
            "reservation": RESERVATION,
        }
        return self.answer(PreflightWords(words).data)
