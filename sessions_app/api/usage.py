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
from sessions_app.services import steps, usage
from sessions_app.services.steps import ModelLine
from sessions_app.services.usage import Figure
from sessions_app.states import Standing

#: Keys and budgets are asked before each call leaves.
ADMISSION = "before_each_call"
_RECORDED = "Served from the record after a resume: not billed. The tokens are those that were not bought again."


class UsageEntry(serializers.Serializer[Any]):
    """One kind of use. `quantity` is in `unit`. Model calls have a row for each provider, model and key, billed ones and others apart."""

    kind = serializers.CharField(help_text="model, runtime or storage.")
    quantity = serializers.IntegerField(allow_null=True)
    unit = serializers.CharField(help_text="tokens, seconds or bytes.")
    provider = serializers.CharField(allow_null=True)
    model = serializers.CharField(allow_null=True)
    key_source = serializers.CharField(allow_null=True, help_text="The id of the account's provider key.")
    calls = serializers.IntegerField(allow_null=True)
    billed = serializers.BooleanField(allow_null=True, help_text="false: served from the record.")
    input_tokens = serializers.IntegerField(allow_null=True)
    output_tokens = serializers.IntegerField(allow_null=True)
    tokens = serializers.IntegerField(allow_null=True)
    source = serializers.CharField(allow_null=True)  # type: ignore[assignment]  # a field of that name, not the framework's attribute
    reserved_live_tokens = serializers.IntegerField(allow_null=True)
    microusd = serializers.IntegerField(allow_null=True, help_text="null: the price, or what was used, is not known for all of it.")
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
    gateway_budget_tokens = serializers.IntegerField(help_text="The session's budget: no call leaves once it is spent.")
    rate_book_version = serializers.CharField(allow_null=True)
    entries = UsageEntry(many=True)
    observed_at = serializers.DateTimeField()


class Meter(serializers.Serializer[Any]):
    """`spent` is without the calls whose use is not known, and without those that were served from the record."""

    session = serializers.CharField()
    spent = serializers.IntegerField(allow_null=True, help_text="Tokens; null: not known.")
    budget = serializers.IntegerField()
    billed_calls = serializers.IntegerField(allow_null=True)
    unknown_calls = serializers.IntegerField(
        allow_null=True, help_text="Of the billed ones, those of which it is not known what they used."
    )
    replayed_calls = serializers.IntegerField(allow_null=True)
    replayed_tokens = serializers.IntegerField(allow_null=True)
    key_sources = serializers.ListField(child=serializers.CharField(), help_text="provider:alias of each key that is bound.")


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
        used, book = usage.of_session(session), steps.model_book.call(session)
        models = [_model_entry(line) for line in book.lines] or [_entry("model", used.model)]
        limit = book.limit_microusd
        words: dict[str, Any] = {
            "session_id": session.id,
            "limits": {"token_cap": session.budget_tokens, "model_admission_limit_microusd": limit, "admission_policy": ADMISSION},
            "gateway_budget_tokens": session.budget_tokens,
            "rate_book_version": book.price_version,
            "entries": [*models, _entry("runtime", used.runtime), _entry("storage", used.storage)],
            "observed_at": timezone.now(),
        }
        return self.answer(UsageWords(words).data)


class MeterView(ApiView):
    @extend_schema(
        operation_id="session_meter",
        tags=["sessions"],
        summary="Read a session's meter",
        description="Tokens and calls as the gateway has counted them.",
        responses={200: Meter, **errors(401, 403, 404, 409, 426, v2=False)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        session = sessions.find(self.account, session_id)
        used, bound = steps.model_use.call(session), steps.bound_keys.call([session.id])
        words: dict[str, Any] = {
            "session": session.id,
            "spent": used.tokens,
            "budget": session.budget_tokens,
            "billed_calls": used.billed_calls,
            "unknown_calls": used.unknown_calls,
            "replayed_calls": used.replayed_calls,
            "replayed_tokens": used.replayed_tokens,
            "key_sources": [f"{key.provider}:{key.label}" for key in bound.get(session.id, [])],
        }
        return self.answer(Meter(words).data)


def _unknown() -> dict[str, Any]:
    return dict.fromkeys(str(name) for name in UsageEntry().fields)


def _entry(kind: str, figure: Figure) -> dict[str, Any]:
    of_model = {"tokens": figure.value, "calls": 0} if kind == "model" else {}
    return {
        **_unknown(),
        **of_model,
        "kind": kind,
        "quantity": figure.value,
        "unit": figure.unit,
        "standing": figure.standing,
        "observed_at": figure.observed_at,
        "note": figure.note,
    }


def _model_entry(line: ModelLine) -> dict[str, Any]:
    known = line.tokens is not None
    return {
        **_unknown(),
        "kind": "model",
        "quantity": line.tokens,
        "unit": "tokens",
        "provider": line.provider,
        "model": line.model or None,
        "key_source": line.key_id,
        "calls": line.calls,
        "billed": line.billed,
        "input_tokens": line.input_tokens,
        "output_tokens": line.output_tokens,
        "tokens": line.tokens,
        "source": "gateway",
        "microusd": line.microusd,
        "currency": None if line.microusd is None else "USD",
        "price_source_version": line.price_version or None,
        "standing": Standing.ACTUAL if known else Standing.UNAVAILABLE,
        "observed_at": line.observed_at,
        "note": _RECORDED if not line.billed else "" if known else "What some of these calls used is not known.",
    }
