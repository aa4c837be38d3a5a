"""Signing a terminal in: it begins here, a person decides at the page /device, and the terminal polls for its token here."""

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import address, body, idempotency
from sessions_app.api.auth import PerAddress
from sessions_app.api.body import Body
from sessions_app.api.fields import Text
from sessions_app.api.schema import KEY, errors
from sessions_app.api.view import ApiView
from sessions_app.errors import Invalid
from sessions_app.roles import Scope
from sessions_app.services import device_grant

FORMS = {"application/json", "application/x-www-form-urlencoded"}
_REFUSALS = (400, 413, 415, 426, 429)


class DeviceStart(Body):
    client_id = Text(required=False, max_length=100, allow_blank=True, help_text="Taken, and not used: there are no client records.")
    scope = Text(
        required=False,
        max_length=200,
        allow_blank=True,
        help_text=f"What to ask for, separated by blanks: {', '.join(Scope)}. Absent: {' '.join(device_grant.DEFAULT_SCOPES)}. The person "
        "decides.",
    )


class DevicePoll(Body):
    device_code = Text(max_length=200)
    client_id = Text(required=False, max_length=100, allow_blank=True)
    grant_type = Text(required=False, max_length=100, allow_blank=True)


class DeviceCodes(serializers.Serializer[Any]):
    device_code = serializers.CharField(help_text="The terminal's secret: it polls with it.")
    user_code = serializers.CharField(help_text="What the person compares, and types if need be.")
    verification_uri = serializers.CharField()
    verification_uri_complete = serializers.CharField()
    expires_in = serializers.IntegerField(help_text="Seconds.")
    interval = serializers.IntegerField(help_text="Seconds between two polls.")


class DeviceToken(serializers.Serializer[Any]):
    token = serializers.CharField(help_text="Told in this answer alone.")
    token_id = serializers.CharField()
    scope = serializers.CharField(help_text="Separated by blanks.")
    account_id = serializers.CharField()
    account_name = serializers.CharField()
    expires_at = serializers.DateTimeField(allow_null=True)


class DeviceView(ApiView):
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = (PerAddress,)


class DeviceCodeView(DeviceView):
    @extend_schema(
        operation_id="device_code",
        tags=["sign-in"],
        summary="Begin a terminal's sign-in",
        description="Takes a form or JSON, also an empty one. Each request begins another sign-in, whatever its key: codes are kept "
        "nowhere, so they cannot be told again. One that nobody decides on is over after its time.",
        auth=[],
        parameters=[KEY],
        request=dict.fromkeys(sorted(FORMS), DeviceStart),
        responses={200: DeviceCodes, **errors(*_REFUSALS, v2=False)},
    )
    def post(self, request: Request) -> Response:
        idempotency.key(request)
        wanted = body.checked(DeviceStart, body.read(request, forms=True))
        client = request.headers.get("User-Agent", "")
        codes = device_grant.begin(client=client, address=address.bucket(request), scopes=_scopes(wanted.get("scope", "")))
        page = request.build_absolute_uri(reverse("device"))
        words = {
            "device_code": codes.device_code,
            "user_code": codes.user_code,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?user_code={codes.user_code}",
            "expires_in": device_grant.LIFE_SECONDS,
            "interval": device_grant.INTERVAL_SECONDS,
        }
        return _unkept(self.answer(words))


class DeviceTokenView(DeviceView):
    @extend_schema(
        operation_id="device_token",
        tags=["sign-in"],
        summary="Poll for the token of a terminal's sign-in",
        description="428 ks_authorization_pending until somebody has decided; 429 ks_slow_down for a poll before its time; 403 "
        "ks_access_denied; 400 ks_expired_token for a code that is not known, is over or was used. One poll gets the token.",
        auth=[],
        parameters=[KEY],
        request=dict.fromkeys(sorted(FORMS), DevicePoll),
        responses={200: DeviceToken, **errors(*_REFUSALS, 403, 409, 428, v2=False)},
    )
    def post(self, request: Request) -> Response:
        idempotency.key(request)
        wanted = body.checked(DevicePoll, body.read(request, forms=True))
        token, plain = device_grant.poll(wanted["device_code"])
        words = {
            "token": plain,
            "token_id": token.id,
            "scope": " ".join(token.scopes),
            "account_id": token.account_id,
            "account_name": token.account.name,
            "expires_at": token.expires_at,
        }
        return _unkept(self.answer(DeviceToken(words).data))


def _scopes(text: str) -> list[Scope]:
    words = text.split()
    if any(word not in list(Scope) for word in words):
        raise Invalid(f"A scope is one of: {', '.join(Scope)}. No sign-in was begun.")
    return [Scope(word) for word in words] or list(device_grant.DEFAULT_SCOPES)


def _unkept(response: Response) -> Response:
    response["Cache-Control"] = "no-store"
    return response
