"""Delete the account: shown first, scheduled with its name typed, cancelled while it waits; its receipt outlives it."""

from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body
from sessions_app.api.auth import ACCOUNT
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Text
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors
from sessions_app.api.view import ApiView
from sessions_app.models import AccountDeletion
from sessions_app.services import account_deletion, steps
from sessions_app.services.recorded import Answer
from sessions_app.states import DeletionState

SECRET = OpenApiParameter(
    "X-KS-Receipt-Secret", OpenApiTypes.STR, OpenApiParameter.HEADER, required=True, description="Told once, when it was scheduled."
)
REFUSALS = (400, 401, 403, 404, 409, 413, 415, 426)


class Schedule(Body):
    plan_id = Text(max_length=40, help_text="Of the plan that was just read.")
    confirm = Text(max_length=100, help_text="The account's name, as a person typed it.")


class AccountDeletionPlan(serializers.Serializer[Any]):
    id = serializers.CharField()
    expires_at = serializers.DateTimeField()
    plan = serializers.DictField()
    plan_digest = serializers.CharField()


class AccountDeletionRow(serializers.Serializer[AccountDeletion]):
    """A deletion that was asked for. `erased` grows while it runs."""

    id = serializers.CharField(help_text="With the secret it reads the receipt: GET /api/v2/receipts/{id}.")
    account_id = serializers.CharField()
    state = serializers.CharField(help_text=f"One of: {', '.join(DeletionState)}.")
    scheduled_at = serializers.DateTimeField(source="created_at")
    due_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    erased = serializers.DictField(source="journal")
    receipt_secret = serializers.CharField(required=False, help_text="Told in the answer that schedules it, and never again.")


class Receipt(serializers.Serializer[Any]):
    deletion = AccountDeletionRow()
    receipt = serializers.DictField(allow_null=True, help_text="Signed, once the deletion is done; `manage.py verify_receipt` verifies it.")


class AccountDeletionPlanView(RecordedView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(
        operation_id="account_deletion_plan",
        tags=["account"],
        summary="Show what deleting the account would erase",
        description="Changes nothing.",
        parameters=[KEY, PROTOCOL],
        request=Body,
        responses={201: enveloped(AccountDeletionPlan), **errors(*REFUSALS)},
    )
    def post(self, request: Request) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            made = account_deletion.make_plan(self.account)
            words = {"id": made.id, "expires_at": made.expires_at, "plan": made.content, "plan_digest": made.digest}
            return Answer(dict(AccountDeletionPlan(words).data), 201)

        return self.record(request, do)


class AccountDeletionView(RecordedView):
    shape = Shape.V2
    needs = ACCOUNT
    while_closing: ClassVar[frozenset[str]] = frozenset({"POST", "DELETE"})  # a POST is refused by its service, unless it is the same again

    @extend_schema(
        operation_id="account_deletion_read",
        tags=["account"],
        summary="Read the deletion that is scheduled",
        responses={200: enveloped(AccountDeletionRow), **errors(401, 403, 404, 426)},
    )
    def get(self, request: Request) -> Response:
        return self.answer(_row(account_deletion.current(self.account)))

    @extend_schema(
        operation_id="account_deletion_schedule",
        tags=["account"],
        summary="Schedule the account's deletion as planned",
        description="From now on every other change is refused (ks_account_closing). Until `due_at` the deletion can be cancelled.",
        parameters=[KEY, PROTOCOL],
        request=Schedule,
        responses={201: enveloped(AccountDeletionRow), **errors(*REFUSALS)},
    )
    def post(self, request: Request) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(Schedule, data)
            made, secret = account_deletion.schedule(
                self.account, plan_id=wanted["plan_id"], confirm=wanted["confirm"], actor=self.token.id
            )
            return Answer(_row(made), 201, told_once={"receipt_secret": secret})

        return self.record(request, do)

    @extend_schema(
        operation_id="account_deletion_cancel",
        tags=["account"],
        summary="Cancel the scheduled deletion: the account stays",
        parameters=[KEY, PROTOCOL],
        request=None,
        responses={200: enveloped(AccountDeletionRow), **errors(*REFUSALS)},
    )
    def delete(self, request: Request) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            return Answer(_row(account_deletion.cancel(self.account, actor=self.token.id)))

        return self.record(request, do)


class ReceiptView(ApiView):
    """For whoever has the secret: the account, its tokens and its members may be gone."""

    shape = Shape.V2
    authentication_classes = ()
    permission_classes = ()

    @extend_schema(
        operation_id="receipt_read",
        tags=["account"],
        summary="Read how an account's deletion stands, and its signed receipt",
        auth=[],
        parameters=[SECRET],
        responses={200: enveloped(Receipt), **errors(404, 426)},
    )
    def get(self, request: Request, deletion_id: str) -> Response:
        found = account_deletion.by_secret(deletion_id, request.headers.get("X-KS-Receipt-Secret", ""))
        return self.answer({"deletion": _row(found), "receipt": steps.read_receipt.call(found.id)})


def _row(deletion: AccountDeletion) -> dict[str, Any]:
    return {name: value for name, value in AccountDeletionRow(deletion).data.items() if name != "receipt_secret"}
