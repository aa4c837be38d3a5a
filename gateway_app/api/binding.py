"""Which provider keys a session's model calls go out with."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_app.services import binding
from gateway_app.states import Provider
from sessions_app.api import body
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Text, Whole
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.record import REVISION
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors
from sessions_app.models import Session
from sessions_app.services import session as sessions
from sessions_app.services.recorded import Answer


class Bindings(Body):
    keys = serializers.DictField(
        child=Text(max_length=40, allow_null=True),
        help_text="Provider to key id; null drops the provider's binding. Others stay as they are.",
    )
    expected_revision = Whole(help_text=REVISION)


class BoundKeyRow(serializers.Serializer[Any]):
    provider = serializers.ChoiceField(choices=[*Provider])
    key_id = serializers.CharField()
    alias = serializers.CharField(source="label", help_text="Its alias, or its last characters.")
    enabled = serializers.BooleanField(source="usable", help_text="false: the provider's calls are refused, and no other key is used.")


class BindingsRow(serializers.Serializer[Any]):
    session_id = serializers.CharField()
    revision = serializers.IntegerField(help_text="The session's.")
    keys = serializers.DictField(child=serializers.CharField(), help_text="Provider to key id.")
    bindings = BoundKeyRow(many=True)


def row(session: Session) -> dict[str, Any]:
    bound = binding.of_sessions([session.id]).get(session.id, [])
    keys = {one.provider: one.key_id for one in bound}
    return dict(BindingsRow({"session_id": session.id, "revision": session.revision, "keys": keys, "bindings": bound}).data)


class BindingsView(RecordedView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_bindings_read",
        tags=["keys"],
        summary="Read which provider keys a session is bound to",
        responses={200: enveloped(BindingsRow), **errors(401, 403, 404, 409, 426, 429)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        return self.answer(row(sessions.find(self.account, session_id)))

    @extend_schema(
        operation_id="session_bindings",
        tags=["keys"],
        summary="Bind provider keys to a session",
        description="From the session's next call on that key is used, or nothing is.",
        parameters=[KEY, PROTOCOL],
        request=Bindings,
        responses={200: enveloped(BindingsRow), **errors(400, 401, 403, 404, 409, 413, 415, 426, 429)},
        examples=[OpenApiExample("one key", value={"keys": {"anthropic": "vlt_1"}, "expected_revision": 4}, request_only=True)],
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(Bindings, data)
            found = sessions.find(self.account, session_id)
            bound = binding.bind(found, wanted["keys"], expected_revision=wanted["expected_revision"])
            return Answer(row(bound), session_id=bound.id)

        return self.record(request, do)
