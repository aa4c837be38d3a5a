"""An account's tokens: shown without their text, made within what the maker may do, revoked."""

from typing import Any, ClassVar

from django.conf import settings
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, idempotency, pages
from sessions_app.api.auth import ACCOUNT, ANY_TOKEN
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Text, Whole
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors, page_of, page_parameters
from sessions_app.api.view import ApiView
from sessions_app.errors import Invalid
from sessions_app.models import ApiToken
from sessions_app.roles import Scope
from sessions_app.services import bounds
from sessions_app.services import token as tokens
from sessions_app.services.recorded import Answer

_DAYS = f"{bounds.TOKEN_DAYS.start} to {bounds.TOKEN_DAYS.stop - 1}"


class TokenRow(serializers.Serializer[ApiToken]):
    """A token without its text. `revoked_at` and `expires_at` tell whether it still opens anything."""

    id = serializers.CharField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField(), help_text="What it carries; its user's role may allow less.")
    effective_scopes = serializers.ListField(child=serializers.CharField(), help_text="What of that its user's role allows now.")
    user = serializers.SerializerMethodField(help_text="Null for a token of no user.")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)

    def get_user(self, token: ApiToken) -> str | None:
        return None if token.user is None else token.user.get_username()


class TokenMade(TokenRow):
    token = serializers.CharField(
        required=False, help_text="Its text: in the first answer only. A repeated request is answered without it, and it is kept nowhere."
    )


class TokenWanted(Body):
    name = Text(max_length=bounds.TOKEN_NAME_CHARACTERS)
    scopes = serializers.ListField(
        child=Text(max_length=40), required=False, min_length=1, max_length=len(Scope), help_text="Absent: all that this token has now."
    )
    expires_in_days = Whole(required=False, allow_null=True, help_text=f"{_DAYS}; null: it has no end; absent: as this service sets it.")


class Revoked(serializers.Serializer[Any]):
    revoked = serializers.BooleanField()
    token_id = serializers.CharField()


class TokensView(RecordedView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(
        operation_id="token_list",
        tags=["account"],
        summary="List the account's tokens, newest first",
        parameters=[*page_parameters(bounds.DEFAULT_PAGE, bounds.PAGE), PROTOCOL],
        responses={200: page_of(TokenRow), **errors(400, 401, 403, 426)},
    )
    def get(self, request: Request) -> Response:
        limit = pages.whole(request.query_params, "limit", default=bounds.DEFAULT_PAGE, allowed=bounds.PAGE)
        page = tokens.page(self.account, limit=limit, cursor=request.query_params.get("cursor", ""))
        return self.answer(pages.rendered(page, TokenRow))

    @extend_schema(
        operation_id="token_make",
        tags=["account"],
        summary="Make a token of this account",
        description="It belongs to the user of the token that asks, carries no more than that one may do now, and outlives it.",
        parameters=[KEY, PROTOCOL],
        request=TokenWanted,
        responses={201: enveloped(TokenMade), **errors(400, 401, 403, 409, 413, 415, 426)},
        examples=[OpenApiExample("for a robot", value={"name": "nightly", "scopes": ["sessions:read"]}, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        return self.record(request, self._make)

    def _make(self, data: Any) -> Answer:
        wanted = body.checked(TokenWanted, data)
        days = wanted.get("expires_in_days", settings.KEEPSTATE_TOKEN_DAYS)
        if days is not None and days not in bounds.TOKEN_DAYS:
            raise Invalid(f"expires_in_days is a whole number from {_DAYS}, or null. No token was made.")
        scopes = None if "scopes" not in wanted else [_scope(word) for word in wanted["scopes"]]
        token, plain = tokens.derive(self.token, _name(wanted["name"]), scopes=scopes, days=days)
        return Answer(dict(TokenRow(token).data), status=201, told_once={"token": plain})


class TokenView(RecordedView):
    shape = Shape.V2
    needs = ACCOUNT
    while_closing: ClassVar[frozenset[str]] = frozenset({"DELETE"})

    @extend_schema(
        operation_id="token_end",
        tags=["account"],
        summary="Revoke a token of this account",
        description="It opens nothing from then on. Safe to repeat.",
        parameters=[KEY, PROTOCOL],
        request=None,
        responses={200: enveloped(Revoked), **errors(400, 401, 403, 404, 413, 415, 426)},
    )
    def delete(self, request: Request, token_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            token = tokens.find(self.account, token_id)
            tokens.end(token, actor=self.token.id)
            return Answer({"revoked": True, "token_id": token.id})

        return self.record(request, do)


class RevokeView(ApiView):
    needs = ANY_TOKEN
    while_closing: ClassVar[frozenset[str]] = frozenset({"POST"})

    @extend_schema(
        operation_id="token_revoke",
        tags=["account"],
        summary="Revoke the token that this request carries",
        request=None,
        parameters=[KEY],
        responses={200: Revoked, **errors(400, 401, 403, v2=False)},
    )
    def post(self, request: Request) -> Response:
        idempotency.key(request)
        body.checked(Body, body.read(request))
        tokens.end(self.token, actor=self.token.id)
        return self.answer({"revoked": True, "token_id": self.token.id})


def _scope(word: str) -> Scope:
    if word not in list(Scope):
        raise Invalid(f"A scope is one of: {', '.join(Scope)}. No token was made.")
    return Scope(word)


def _name(name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise Invalid("A token's name is printable, and not blank. No token was made.")
    return name
