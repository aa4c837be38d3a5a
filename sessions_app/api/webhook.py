"""Webhooks: where an account wants to be told of what happens to its sessions and checkpoints."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, pages
from sessions_app.api.auth import ACCOUNT
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Flag, Known, Text, Whole
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors, page_of, page_parameters
from sessions_app.models import WebhookEndpoint
from sessions_app.services import bounds
from sessions_app.services.recorded import Answer
from sessions_app.services.webhooks import endpoint as endpoints
from sessions_app.services.webhooks import outbox

READ = errors(401, 403, 404, 426, 429)
WRITE = errors(400, 401, 403, 404, 409, 413, 415, 426, 429, 503)
_TYPES = "Types of events, such as session.parked; session.* and checkpoint.* stand for all of theirs. Empty: all."


def _types(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=Text(max_length=60), max_length=endpoints.MOST_TYPES, help_text=_TYPES, **options)


class WebhookWanted(Body):
    url = Text(max_length=500, help_text="https, of a host that the whole internet can reach.")
    types = _types(required=False)


class WebhookChange(Body):
    expected_revision = Whole(help_text="The webhook's revision as it was read.")
    url = Text(max_length=500, required=False)
    types = _types(required=False)
    enabled = Flag(required=False)


class WebhookRow(serializers.Serializer[WebhookEndpoint]):
    id = serializers.CharField()
    url = serializers.CharField()
    types = serializers.ListField(child=serializers.CharField())
    enabled = serializers.BooleanField()
    disabled_reason = Known()
    revision = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    last_success_at = serializers.DateTimeField(allow_null=True)
    previous_secret_until = serializers.DateTimeField(allow_null=True, help_text="Until then messages are signed with both secrets.")


class WebhookMade(WebhookRow):
    secret = serializers.CharField(required=False, help_text="whsec_ and base64: in the first answer only, never again.")


class WebhookDeleted(serializers.Serializer[Any]):
    id = serializers.CharField()
    deleted = serializers.BooleanField()


class MessageAsked(serializers.Serializer[Any]):
    message_id = serializers.CharField()
    state = serializers.CharField()


def row(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return dict(WebhookRow(endpoint).data)


class WebhookListView(RecordedView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(
        operation_id="webhook_list",
        tags=["webhooks"],
        summary="List webhooks, newest first",
        parameters=page_parameters(bounds.DEFAULT_PAGE, bounds.PAGE),
        responses={200: page_of(WebhookRow), **READ, **errors(400)},
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        limit = pages.whole(query, "limit", default=bounds.DEFAULT_PAGE, allowed=bounds.PAGE)
        return self.answer(pages.rendered(endpoints.page(self.account, limit=limit, cursor=query.get("cursor", "")), WebhookRow))

    @extend_schema(
        operation_id="webhook_create",
        tags=["webhooks"],
        summary="Be told of events",
        description="Messages are signed as Standard Webhooks has it. The secret is in this answer alone.",
        parameters=[KEY, PROTOCOL],
        request=WebhookWanted,
        responses={201: enveloped(WebhookMade), **WRITE},
        examples=[OpenApiExample("of saves", value={"url": "https://example.com/ks", "types": ["checkpoint.*"]}, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(WebhookWanted, data)
            made = endpoints.create(self.account, url=wanted["url"], types=wanted.get("types", []))
            return Answer(row(made.endpoint), 201, told_once={"secret": made.secret})

        return self.record(request, do)


class WebhookView(RecordedView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(operation_id="webhook_read", tags=["webhooks"], summary="Read a webhook", responses={200: enveloped(WebhookRow), **READ})
    def get(self, request: Request, webhook_id: str) -> Response:
        return self.answer(WebhookRow(endpoints.find(self.account, webhook_id)).data)

    @extend_schema(
        operation_id="webhook_change",
        tags=["webhooks"],
        summary="Change a webhook",
        description="While it is disabled its messages wait; no new ones are written.",
        parameters=[KEY, PROTOCOL],
        request=WebhookChange,
        responses={200: enveloped(WebhookRow), **WRITE},
    )
    def patch(self, request: Request, webhook_id: str) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(WebhookChange, data)
            expected = wanted.pop("expected_revision")
            return Answer(row(endpoints.change(endpoints.find(self.account, webhook_id), wanted, expected_revision=expected)))

        return self.record(request, do)

    @extend_schema(
        operation_id="webhook_delete",
        tags=["webhooks"],
        summary="Delete a webhook with its messages",
        parameters=[KEY, PROTOCOL],
        request=None,
        responses={200: enveloped(WebhookDeleted), **WRITE},
    )
    def delete(self, request: Request, webhook_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            found = endpoints.find(self.account, webhook_id)
            endpoints.delete(found)
            return Answer({"id": found.id, "deleted": True})

        return self.record(request, do)


class WebhookSecretView(RecordedView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(
        operation_id="webhook_rotate_secret",
        tags=["webhooks"],
        summary="Draw a new secret",
        description="For a day messages are signed with both, so that a receiver can change over.",
        parameters=[KEY, PROTOCOL],
        request=None,
        responses={200: enveloped(WebhookMade), **WRITE},
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            made = endpoints.rotate(endpoints.find(self.account, webhook_id))
            return Answer(row(made.endpoint), told_once={"secret": made.secret})

        return self.record(request, do)


class WebhookTestView(RecordedView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(
        operation_id="webhook_test",
        tags=["webhooks"],
        summary="Send a message that tells nothing",
        parameters=[KEY, PROTOCOL],
        request=None,
        responses={200: enveloped(MessageAsked), **WRITE},
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            message = outbox.tell_test(endpoints.find(self.account, webhook_id))
            return Answer({"message_id": message.id, "state": message.state})

        return self.record(request, do)
