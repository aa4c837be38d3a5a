"""What a session has used, and its meter. A figure that is not known is null and says `unavailable`, never 0."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.envelope import Shape
from sessions_app.api.schema import enveloped, errors
from sessions_app.api.view import ApiView
from sessions_app.services import session as sessions
from sessions_app.services import usage
from sessions_app.services.usage import Figure
from sessions_app.states import Standing

#: No model call goes through this service yet, so none is admitted or refused for a budget.
ADMISSION = "not_enforced"


class UsageEntry(serializers.Serializer[Any]):
    """One kind of use. `quantity` is in `unit`; money and calls are null, for no price book and no gateway are of this version."""

    kind = serializers.CharField(help_text="model, runtime or storage.")
    quantity = serializers.IntegerField(allow_null=True)
    unit = serializers.CharField(help_text="tokens, seconds or bytes.")
    provider = serializers.CharField(allow_null=True)
    model = serializers.CharField(allow_null=True)
    key_source = serializers.CharField(allow_null=True)
    calls = serializers.IntegerField(allow_null=True)
    input_tokens = serializers.IntegerField(allow_null=True)
    output_tokens = serializers.IntegerField(allow_null=True)
    tokens = serializers.IntegerField(allow_null=True)
    source = serializers.CharField(allow_null=True)  # type: ignore[assignment]  # a field of that name, not the framework's attribute
    reserved_live_tokens = serializers.IntegerField(allow_null=True)
    microusd = serializers.IntegerField(allow_null=True)
    currency = serializers.CharField(allow_null=True)
    price_source_version = serializers.CharField(allow_null=True)
    standing = serializers.ChoiceField(choices=[*Standing])
    observed_at = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField(allow_blank=True)


class UsageLimits(serializers.Serializer[Any]):
    token_cap = serializers.IntegerField(allow_null=True)
    model_admission_limit_microusd = serializers.IntegerField(allow_null=True)
    admission_policy = serializers.CharField()


class UsageWords(serializers.Serializer[Any]):
    session_id = serializers.CharField()
    limits = UsageLimits()
    gateway_budget_tokens = serializers.IntegerField(help_text="The session's budget, recorded and not yet enforced.")
    rate_book_version = serializers.CharField(allow_null=True)
    entries = UsageEntry(many=True)
    observed_at = serializers.DateTimeField()


class Meter(serializers.Serializer[Any]):
    session = serializers.CharField()
    spent = serializers.IntegerField(allow_null=True, help_text="Tokens; null: not known.")
    budget = serializers.IntegerField()
    billed_calls = serializers.IntegerField(allow_null=True)
    key_sources = serializers.ListField(child=serializers.CharField())


class UsageView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_usage",
        tags=["sessions"],
        summary="Read what a session has used",
        description="Model, runtime and storage apart, each with its standing.",
        responses={200: enveloped(UsageWords), **errors(401, 403, 404, 409, 426)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        session = sessions.find(self.account, session_id)
        used = usage.of_session(session)
        words: dict[str, Any] = {
            "session_id": session.id,
            "limits": {"token_cap": None, "model_admission_limit_microusd": None, "admission_policy": ADMISSION},
            "gateway_budget_tokens": session.budget_tokens,
            "rate_book_version": None,
            "entries": [_entry("model", used.model), _entry("runtime", used.runtime), _entry("storage", used.storage)],
            "observed_at": timezone.now(),
        }
        return self.answer(UsageWords(words).data)


class MeterView(ApiView):
    @extend_schema(
        operation_id="session_meter",
        tags=["sessions"],
        summary="Read a session's meter",
        description="What it has spent and how many calls were billed is not known in this version: null, never 0.",
        responses={200: Meter, **errors(401, 403, 404, 409, 426, v2=False)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        session = sessions.find(self.account, session_id)
        words: dict[str, Any] = {
            "session": session.id,
            "spent": None,
            "budget": session.budget_tokens,
            "billed_calls": None,
            "key_sources": [],
        }
        return self.answer(Meter(words).data)


def _entry(kind: str, figure: Figure) -> dict[str, Any]:
    unknown: dict[str, Any] = dict.fromkeys(str(name) for name in UsageEntry().fields)
    of_model = {"tokens": figure.value} if kind == "model" else {}
    return {
        **unknown,
        **of_model,
        "kind": kind,
        "quantity": figure.value,
        "unit": figure.unit,
        "standing": figure.standing,
        "observed_at": figure.observed_at,
        "note": figure.note,
    }
