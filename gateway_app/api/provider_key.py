"""Provider keys of the account. A secret comes in and never goes out: not in an answer, a log, a plan or a recorded request."""

from typing import Any

from django.utils.crypto import salted_hmac
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_app.models import ProviderKey
from gateway_app.services import provider_key as keys
from gateway_app.states import Provider
from sessions_app.api import body, pages
from sessions_app.api.auth import Needs
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Flag, Known, Text, Whole
from sessions_app.api.idempotency import RecordedView, asked
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors, page_of, page_parameters
from sessions_app.roles import Scope
from sessions_app.services import bounds
from sessions_app.services.recorded import Answer

#: Their list shows no secret, and whoever binds a key must find it.
NEEDS = Needs(Scope.SESSIONS_READ, Scope.ACCOUNT_MANAGE)
READ = errors(401, 403, 404, 426, 429)
WRITE = errors(400, 401, 403, 404, 409, 413, 415, 422, 426, 429, 503)
PLAN_ID = OpenApiParameter("plan_id", str, description="Of the deletion plan that was just read.")
_HELP = "The provider's key: 8 to 8192 visible ASCII characters. Sealed at once, and in no answer."


def _secret(**options: Any) -> Text:
    return Text(write_only=True, max_length=keys.SECRET_CHARACTERS.stop - 1, help_text=_HELP, **options)


class KeyWanted(Body):
    provider = Text(max_length=20, help_text=f"One of: {', '.join(Provider)}.")
    secret = _secret()
    alias = Text(required=False, default="", allow_blank=True, max_length=keys.ALIAS_CHARACTERS)


class KeyChange(Body):
    expected_revision = Whole(help_text="The key's revision as it was read.")
    enabled = Flag(required=False)
    alias = Text(required=False, allow_blank=True, max_length=keys.ALIAS_CHARACTERS)
    secret = _secret(required=False)


class KeyRow(serializers.Serializer[ProviderKey]):
    id = serializers.CharField()
    provider = serializers.ChoiceField(choices=[*Provider])
    alias = Known()
    last4 = serializers.CharField(help_text="The secret's last characters: all of it that is ever shown.")
    enabled = serializers.BooleanField(help_text="false: no new call goes out with it.")
    revision = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class KeyDeletionPlan(serializers.Serializer[Any]):
    """`plan.bindings`: how many sessions are bound to the key, and the first of them."""

    id = serializers.CharField()
    expires_at = serializers.DateTimeField()
    plan = serializers.DictField()
    plan_digest = serializers.CharField()


class KeyDeleted(serializers.Serializer[Any]):
    id = serializers.CharField()
    deleted = serializers.BooleanField()
    bindings_dropped = serializers.IntegerField()


def row(key: ProviderKey) -> dict[str, Any]:
    return dict(KeyRow(key).data)


class SecretView(RecordedView):
    """A recorded request keeps a digest of its body; of a secret a digest that nobody can try secrets against without the service's key."""

    shape = Shape.V2
    needs = NEEDS

    def record_secret(self, request: Request, data: Any, do: Any) -> Response:
        known = data
        if isinstance(data, dict) and isinstance(data.get("secret"), str):
            known = {**data, "secret": salted_hmac("KeepState recorded secret", data["secret"], algorithm="sha256").hexdigest()}
        return self.record_asked(asked(request, known), do)


class KeyListView(SecretView):
    @extend_schema(
        operation_id="key_list",
        tags=["keys"],
        summary="List provider keys, newest first",
        parameters=page_parameters(bounds.DEFAULT_PAGE, bounds.PAGE),
        responses={200: page_of(KeyRow), **READ, **errors(400)},
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        limit = pages.whole(query, "limit", default=bounds.DEFAULT_PAGE, allowed=bounds.PAGE)
        return self.answer(pages.rendered(keys.page(self.account, limit=limit, cursor=query.get("cursor", "")), KeyRow))

    @extend_schema(
        operation_id="key_create",
        tags=["keys"],
        summary="Register a provider's key",
        description="It is used by no session until it is bound to one. A second key of the same provider is another key; to exchange a "
        "secret, change the key.",
        parameters=[KEY, PROTOCOL],
        request=KeyWanted,
        responses={201: enveloped(KeyRow), **WRITE},
        examples=[OpenApiExample("one", value={"provider": "anthropic", "secret": "<secret>", "alias": "team"}, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        data = body.read(request)

        def do() -> Answer:
            wanted = body.checked(KeyWanted, data)
            return Answer(row(keys.create(self.account, **wanted, actor=self.token.id)), 201)

        return self.record_secret(request, data, do)


class KeyView(SecretView):
    @extend_schema(operation_id="key_read", tags=["keys"], summary="Read a provider key", responses={200: enveloped(KeyRow), **READ})
    def get(self, request: Request, key_id: str) -> Response:
        return self.answer(KeyRow(keys.find(self.account, key_id)).data)

    @extend_schema(
        operation_id="key_change",
        tags=["keys"],
        summary="Enable, disable, rename a provider key, or exchange its secret",
        description="It keeps its id and its bindings. Disabled, it lets no new call out; calls on their way are read to their end.",
        parameters=[KEY, PROTOCOL],
        request=KeyChange,
        responses={200: enveloped(KeyRow), **WRITE},
    )
    def patch(self, request: Request, key_id: str) -> Response:
        data = body.read(request)

        def do() -> Answer:
            wanted = body.checked(KeyChange, data)
            return Answer(row(keys.change(keys.find(self.account, key_id), **wanted, actor=self.token.id)))

        return self.record_secret(request, data, do)

    @extend_schema(
        operation_id="key_delete",
        tags=["keys"],
        summary="Delete a provider key as planned",
        description="Its sessions are bound to no key of this provider any more.",
        parameters=[KEY, PROTOCOL, PLAN_ID],
        request=None,
        responses={200: enveloped(KeyDeleted), **WRITE},
    )
    def delete(self, request: Request, key_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            found = keys.find(self.account, key_id)
            dropped = keys.delete(found, plan_id=request.query_params.get("plan_id", ""), actor=self.token.id)
            return Answer({"id": found.id, "deleted": True, "bindings_dropped": dropped})

        return self.record(request, do)


class KeyDeletionPlanView(RecordedView):
    shape = Shape.V2
    needs = NEEDS

    @extend_schema(
        operation_id="key_deletion_plan",
        tags=["keys"],
        summary="Show what deleting a provider key would drop",
        description="Changes nothing. The plan serves once, until it expires, and while key and bindings stay as they are.",
        parameters=[KEY, PROTOCOL],
        request=Body,
        responses={201: enveloped(KeyDeletionPlan), **WRITE},
    )
    def post(self, request: Request, key_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            made = keys.make_plan(keys.find(self.account, key_id))
            words = {"id": made.id, "expires_at": made.expires_at, "plan": made.content, "plan_digest": made.digest}
            return Answer(dict(KeyDeletionPlan(words).data), 201)

        return self.record(request, do)
