"""A session's model calls, as metadata."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_app.models import Call
from gateway_app.services import call as calls
from gateway_app.states import Api, CallState, Provider
from sessions_app.api import pages
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Known
from sessions_app.api.schema import errors, page_of, page_parameters
from sessions_app.api.view import ApiView
from sessions_app.services import bounds
from sessions_app.services import session as sessions

_TICKS = range(2**63)


class CallRow(serializers.Serializer[Call]):
    """A call that went to its provider. What was asked and answered is in no answer of this API; its hashes are."""

    id = serializers.CharField()
    epoch = serializers.IntegerField()
    provider = serializers.ChoiceField(choices=[*Provider])
    api = serializers.ChoiceField(choices=[*Api])
    model = Known()
    streamed = serializers.BooleanField()
    state = serializers.ChoiceField(choices=[*CallState], help_text="Only a complete call is ever replayed, and only its use is known.")
    http_status = serializers.IntegerField(allow_null=True)
    key_id = serializers.CharField()
    key_last4 = serializers.CharField()
    input_tokens = serializers.IntegerField(allow_null=True)
    output_tokens = serializers.IntegerField(allow_null=True)
    cache_read_tokens = serializers.IntegerField(allow_null=True)
    cache_write_tokens = serializers.IntegerField(allow_null=True)
    microusd = serializers.IntegerField(allow_null=True)
    request_bytes = serializers.IntegerField()
    response_bytes = serializers.IntegerField()
    steer_id = Known()
    body_sha256 = serializers.CharField(help_text="Of the body as the program sent it.")
    sent_sha256 = serializers.CharField(help_text="Of the body as it went to the provider: another one where it was steered or completed.")
    started_at = serializers.DateTimeField()
    first_byte_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class CallListView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_calls",
        tags=["keys"],
        summary="List a session's model calls, newest first",
        parameters=page_parameters(bounds.DEFAULT_PAGE, bounds.PAGE),
        responses={200: page_of(CallRow), **errors(400, 401, 403, 404, 409, 426, 429)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        query = request.query_params
        limit = pages.whole(query, "limit", default=bounds.DEFAULT_PAGE, allowed=bounds.PAGE)
        before = pages.whole(query, "cursor", default=-1, allowed=_TICKS)
        found = sessions.find(self.account, session_id)
        return self.answer(pages.rendered(calls.page(found, limit=limit, before=None if before < 0 else before), CallRow))
