"""The messages of a webhook: what was sent, what came of it, and sending one again."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, pages
from sessions_app.api.auth import ACCOUNT
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Known
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors, page_of, page_parameters
from sessions_app.api.view import ApiView
from sessions_app.api.webhook import READ, WRITE, MessageAsked
from sessions_app.errors import Invalid
from sessions_app.models import WebhookDelivery
from sessions_app.services import bounds
from sessions_app.services.recorded import Answer
from sessions_app.services.webhooks import delivery
from sessions_app.services.webhooks import endpoint as endpoints
from sessions_app.states import DeliveryState


class DeliveryRow(serializers.Serializer[WebhookDelivery]):
    """A message. `last_status` is null where no answer came; `last_error` says why then."""

    id = serializers.CharField(help_text="Also the header webhook-id: the same at every attempt.")
    event_type = serializers.CharField()
    session_id = Known()
    state = serializers.CharField(help_text=f"One of: {', '.join(DeliveryState)}.")
    attempt = serializers.IntegerField()
    due_at = serializers.DateTimeField(allow_null=True)
    last_status = serializers.IntegerField(allow_null=True)
    last_error = Known()
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    body = serializers.CharField(help_text="The exact text that is signed.")


class DeliveryListView(ApiView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(
        operation_id="webhook_deliveries",
        tags=["webhooks"],
        summary="List a webhook's messages, newest first",
        parameters=[
            OpenApiParameter("state", str, enum=list(DeliveryState), description="Only messages in this state."),
            *page_parameters(bounds.DEFAULT_PAGE, bounds.PAGE),
        ],
        responses={200: page_of(DeliveryRow), **READ, **errors(400)},
    )
    def get(self, request: Request, webhook_id: str) -> Response:
        query = request.query_params
        state = query.get("state", "")
        if state and state not in list(DeliveryState):
            raise Invalid(f"state is one of: {', '.join(DeliveryState)}.")
        page = delivery.page(
            endpoints.find(self.account, webhook_id),
            state=DeliveryState(state) if state else None,
            limit=pages.whole(query, "limit", default=bounds.DEFAULT_PAGE, allowed=bounds.PAGE),
            cursor=query.get("cursor", ""),
        )
        return self.answer(pages.rendered(page, DeliveryRow))


class RedeliverView(RecordedView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(
        operation_id="webhook_redeliver",
        tags=["webhooks"],
        summary="Send a message again",
        description="Under its own id, so that a receiver that has it already can tell; its attempts begin anew.",
        parameters=[KEY, PROTOCOL],
        request=None,
        responses={200: enveloped(MessageAsked), **WRITE},
    )
    def post(self, request: Request, webhook_id: str, message_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            message = delivery.redeliver(endpoints.find(self.account, webhook_id), message_id)
            return Answer({"message_id": message.id, "state": message.state})

        return self.record(request, do)
