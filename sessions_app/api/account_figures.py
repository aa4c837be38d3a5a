"""An account as its members see it: its quotas, what it has used, and its lines of the service record."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import pages
from sessions_app.api.auth import ACCOUNT, SESSIONS_READ
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Known
from sessions_app.api.schema import enveloped, errors, page_of, page_parameters
from sessions_app.api.view import ApiView
from sessions_app.errors import Invalid
from sessions_app.models import ServiceRecord
from sessions_app.services import bounds, host_names, quota, usage
from sessions_app.services import record as records
from sessions_app.services.quota import Quota
from sessions_app.services.usage import Figure, Usage
from sessions_app.states import RecordKind, Standing

_READ = errors(401, 403, 426, 429)
_NUMBERS = range(2**63)


class QuotaRow(serializers.Serializer[quota.Standing]):
    quota = serializers.ChoiceField(choices=list(Quota))
    limit = serializers.IntegerField(allow_null=True, help_text="null: none.")
    used = serializers.IntegerField(allow_null=True, help_text="null: not measured yet.")


class AccountRow(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    state = serializers.CharField(help_text="active, or closing: it is being deleted and takes no change.")
    created_at = serializers.DateTimeField()
    closing_at = serializers.DateTimeField(allow_null=True, help_text="Since when it is closing.")
    quotas = QuotaRow(many=True)


class FigureRow(serializers.Serializer[Figure]):
    value = serializers.IntegerField(allow_null=True, help_text="null: not known.")
    unit = serializers.CharField()
    standing = serializers.ChoiceField(choices=list(Standing))
    observed_at = serializers.DateTimeField(allow_null=True)
    note = Known()


class UsageRow(serializers.Serializer[Usage]):
    """`runtime`: seconds that machines were awake. `storage`: bytes in the store after deduplication. `model`: tokens."""

    runtime = FigureRow()
    storage = FigureRow()
    model = FigureRow()


class RecordRow(serializers.Serializer[ServiceRecord]):
    """A line of the service record: it has no customer content, is never changed, and outlives what it tells of."""

    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=list(RecordKind))
    type = serializers.CharField()
    session_id = Known()
    actor = serializers.SerializerMethodField(help_text="null: nobody, or what is not told: which host did it.")
    facts = serializers.SerializerMethodField()
    recorded_at = serializers.DateTimeField()

    def get_actor(self, line: ServiceRecord) -> str | None:
        return records.shown_actor(line)

    def get_facts(self, line: ServiceRecord) -> dict[str, Any]:
        return host_names.without(line.facts)


class AccountView(ApiView):
    shape = Shape.V2
    needs = SESSIONS_READ

    @extend_schema(
        operation_id="account",
        tags=["account"],
        summary="The token's account and its quotas",
        responses={200: enveloped(AccountRow), **_READ},
    )
    def get(self, request: Request) -> Response:
        account = self.account
        told = {
            "id": account.id,
            "name": account.name,
            "state": "closing" if account.closing_at else "active",
            "created_at": account.created_at,
            "closing_at": account.closing_at,
            "quotas": quota.of_account(account),
        }
        return self.answer(AccountRow(told).data)


class AccountUsageView(ApiView):
    shape = Shape.V2
    needs = SESSIONS_READ

    @extend_schema(
        operation_id="account_usage",
        tags=["account"],
        summary="What the account has used, each figure with its standing",
        responses={200: enveloped(UsageRow), **_READ},
    )
    def get(self, request: Request) -> Response:
        return self.answer(UsageRow(usage.of_account(self.account)).data)


class AccountRecordView(ApiView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(
        operation_id="account_record",
        tags=["account"],
        summary="The account's lines of the service record, newest first",
        parameters=[
            OpenApiParameter("kind", str, enum=list(RecordKind), description="Only lines of this kind."),
            *page_parameters(bounds.DEFAULT_PAGE, bounds.PAGE),
        ],
        responses={200: page_of(RecordRow), **_READ, **errors(400)},
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        limit = pages.whole(query, "limit", default=bounds.DEFAULT_PAGE, allowed=bounds.PAGE)
        before = pages.whole(query, "cursor", default=-1, allowed=_NUMBERS)
        page = records.page(self.account, limit=limit, before=None if before < 0 else before, kind=_kind(query.get("kind", "")))
        return self.answer(pages.rendered(page, RecordRow))


def _kind(text: str) -> RecordKind | None:
    if text and text not in list(RecordKind):
        raise Invalid(f"kind is one of: {', '.join(RecordKind)}.")
    return RecordKind(text) if text else None
