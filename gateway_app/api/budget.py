"""What a session and an account may spend on model calls."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_app import money
from gateway_app.services import budget
from gateway_app.services.budget import Limits, Standing
from sessions_app.api import body
from sessions_app.api.auth import Needs
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Text, Whole
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors
from sessions_app.errors import Invalid
from sessions_app.roles import Scope
from sessions_app.services import session as sessions
from sessions_app.services.recorded import Answer

READ = errors(401, 403, 404, 409, 426, 429)
WRITE = errors(400, 401, 403, 404, 409, 413, 415, 426, 429)
_USD = "Dollars as decimal text, at most 6 decimals, such as 12.50; null: no limit in money."


class SessionBudgetWanted(Body):
    tokens = Whole(help_text="The session's limit of billed tokens.")
    usd = Text(allow_null=True, max_length=20, help_text=_USD)
    expected_revision = Whole(help_text="The session's revision as it was read.")


class AccountBudgetWanted(Body):
    tokens = Whole(allow_null=True, help_text="Billed tokens of all sessions together; null: no limit.")
    usd = Text(allow_null=True, max_length=20, help_text=_USD)
    expected_revision = Whole(help_text="The budget's revision as it was read; 0 before it is first set.")


class BudgetRow(serializers.Serializer[Standing]):
    """Limits are null where there is none. Money is without the calls whose price is not known: they are counted beside it."""

    limit_tokens = serializers.IntegerField(source="limits.tokens", allow_null=True)
    spent_tokens = serializers.IntegerField()
    limit_usd = serializers.SerializerMethodField()
    limit_microusd = serializers.IntegerField(source="limits.microusd", allow_null=True)
    spent_microusd = serializers.IntegerField()
    unknown_calls = serializers.IntegerField(help_text="Billed, perhaps; how much they used is not known, and no limit counts it.")
    unpriced_calls = serializers.IntegerField(help_text="What they cost is not known, and no limit in money counts it.")
    state = serializers.ChoiceField(choices=["within", "warned", "over"])
    revision = serializers.IntegerField()

    def get_limit_usd(self, standing: Standing) -> str | None:
        return None if standing.limits.microusd is None else money.dollars(standing.limits.microusd)


def _limits(wanted: dict[str, Any]) -> Limits:
    usd = wanted["usd"]
    exact = None if usd is None else money.microusd(usd)
    if usd is not None and exact is None:
        raise Invalid("usd is decimal text of dollars with at most 6 decimals. Nothing was changed.")
    return Limits(wanted["tokens"], exact)


class SessionBudgetView(RecordedView):
    shape = Shape.V2

    @extend_schema(operation_id="session_budget_read", tags=["budgets"], summary="Read a session's budget",
                   responses={200: enveloped(BudgetRow), **READ})  # fmt: skip
    def get(self, request: Request, session_id: str) -> Response:
        return self.answer(BudgetRow(budget.of_session(sessions.find(self.account, session_id))).data)

    @extend_schema(
        operation_id="session_budget_set",
        tags=["budgets"],
        summary="Set a session's budget",
        description="Both limits. Over one, no call leaves, and the session is saved and parked; a higher one does not resume it.",
        parameters=[KEY, PROTOCOL],
        request=SessionBudgetWanted,
        responses={200: enveloped(BudgetRow), **WRITE},
        examples=[OpenApiExample("both", value={"tokens": 2000000, "usd": "12.50", "expected_revision": 4}, request_only=True)],
    )
    def put(self, request: Request, session_id: str) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(SessionBudgetWanted, data)
            found = sessions.find(self.account, session_id)
            standing = budget.set_for_session(found, _limits(wanted), expected_revision=wanted["expected_revision"])
            return Answer(dict(BudgetRow(standing).data), session_id=found.id)

        return self.record(request, do)


class AccountBudgetView(RecordedView):
    shape = Shape.V2
    needs = Needs(Scope.SESSIONS_READ, Scope.ACCOUNT_MANAGE)

    @extend_schema(operation_id="account_budget_read", tags=["budgets"], summary="Read the account's budget",
                   responses={200: enveloped(BudgetRow), **READ})  # fmt: skip
    def get(self, request: Request) -> Response:
        return self.answer(BudgetRow(budget.of_account(self.account)).data)

    @extend_schema(
        operation_id="account_budget_set",
        tags=["budgets"],
        summary="Set the account's budget",
        description="For all of its sessions since it exists. Over it, no call leaves, and what calls models is saved and parked.",
        parameters=[KEY, PROTOCOL],
        request=AccountBudgetWanted,
        responses={200: enveloped(BudgetRow), **WRITE},
        examples=[OpenApiExample("money alone", value={"tokens": None, "usd": "100", "expected_revision": 0}, request_only=True)],
    )
    def put(self, request: Request) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(AccountBudgetWanted, data)
            expected = wanted["expected_revision"]
            standing = budget.set_for_account(self.account, _limits(wanted), expected_revision=expected, actor=self.token.id)
            return Answer(dict(BudgetRow(standing).data))

        return self.record(request, do)
