"""Who calls."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.auth import ANY_TOKEN
from sessions_app.api.schema import errors
from sessions_app.api.view import ApiView


class WhoAmI(serializers.Serializer[Any]):
    account_id = serializers.CharField()
    account_name = serializers.CharField()
    token_id = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField(), help_text="What it may do now: its own, cut by its user's role.")
    role = serializers.CharField(allow_null=True, help_text="The user's role in the account; null for a token of no user.")
    user = serializers.CharField(allow_null=True, help_text="The name of the token's user; null for a token that a command made.")
    expires_at = serializers.DateTimeField(allow_null=True)
    cohort_state = serializers.CharField(allow_null=True)


class WhoAmIView(ApiView):
    needs = ANY_TOKEN

    @extend_schema(
        operation_id="whoami", tags=["account"], summary="The token's account", responses={200: WhoAmI, **errors(401, 403, v2=False)}
    )
    def get(self, request: Request) -> Response:
        token = self.token
        words = {
            "account_id": token.account_id,
            "account_name": token.account.name,
            "token_id": token.id,
            "scopes": token.effective_scopes,
            "role": token.role,
            "user": None if token.user is None else token.user.get_username(),
            "expires_at": token.expires_at,
            "cohort_state": None,
        }
        return self.answer(WhoAmI(words).data)
