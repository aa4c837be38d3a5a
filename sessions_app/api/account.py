"""Who calls, and the end of a token."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, idempotency
from sessions_app.api.schema import KEY, errors
from sessions_app.api.view import ApiView
from sessions_app.services import token as tokens


class WhoAmI(serializers.Serializer[Any]):
    account_id = serializers.CharField()
    account_name = serializers.CharField()
    token_id = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    cohort_state = serializers.CharField(allow_null=True)


class Revoked(serializers.Serializer[Any]):
    revoked = serializers.BooleanField()
    token_id = serializers.CharField()


class WhoAmIView(ApiView):
    @extend_schema(
        operation_id="whoami", tags=["account"], summary="The token's account", responses={200: WhoAmI, **errors(401, 403, v2=False)}
    )
    def get(self, request: Request) -> Response:
        token = self.token
        words = {
            "account_id": token.account_id,
            "account_name": token.account.name,
            "token_id": token.id,
            "scopes": token.scopes,
            "cohort_state": None,
        }
        return self.answer(words)


class RevokeView(ApiView):
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
        body.checked(body.Body, body.read(request))
        tokens.revoke(self.token)
        return self.answer({"revoked": True, "token_id": self.token.id})
