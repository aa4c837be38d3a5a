"""Steers of a session: a text for its next model call."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_app.models import Steer
from gateway_app.services import steer as steers
from sessions_app.api import body, pages
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Known, Text
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors, page_of, page_parameters
from sessions_app.services import bounds
from sessions_app.services import session as sessions
from sessions_app.services.recorded import Answer


class SteerWanted(Body):
    text = Text(max_length=bounds.STEER_BYTES, help_text="At most 64 KiB. It is put behind the newest turn of the next model call.")


class SteerRow(serializers.Serializer[Steer]):
    """The text itself is shown again to nobody. Context: `bodies`, the hashes of the call's body by steer id."""

    id = serializers.CharField()
    session_id = serializers.CharField()
    text_sha256 = serializers.CharField()
    state = serializers.SerializerMethodField(help_text="waiting, or used: by one call, and no other.")
    created_at = serializers.DateTimeField()
    used_at = serializers.DateTimeField(allow_null=True)
    call_id = Known()
    body_sha256_before = serializers.SerializerMethodField(help_text="Of the call's body as the program sent it.")
    body_sha256_after = serializers.SerializerMethodField(help_text="Of it as it went to the provider, with the text.")

    def get_state(self, steer: Steer) -> str:
        return "waiting" if steer.used_at is None else "used"

    def get_body_sha256_before(self, steer: Steer) -> str | None:
        return self._hashes(steer)[0]

    def get_body_sha256_after(self, steer: Steer) -> str | None:
        return self._hashes(steer)[1]

    def _hashes(self, steer: Steer) -> tuple[str | None, str | None]:
        found: tuple[str | None, str | None] = self.context["bodies"].get(steer.id, (None, None))
        return found


class SteerListView(RecordedView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_steers_read",
        tags=["steers"],
        summary="List a session's steers, newest first",
        parameters=page_parameters(bounds.DEFAULT_PAGE, bounds.PAGE),
        responses={200: page_of(SteerRow), **errors(400, 401, 403, 404, 409, 426, 429)},
    )
    def get(self, request: Request, session_id: str) -> Response:
        query = request.query_params
        limit = pages.whole(query, "limit", default=bounds.DEFAULT_PAGE, allowed=bounds.PAGE)
        page = steers.page(sessions.find(self.account, session_id), limit=limit, cursor=query.get("cursor", ""))
        return self.answer(pages.rendered(page, SteerRow, bodies=steers.bodies(page.items)))

    @extend_schema(
        operation_id="session_steer",
        tags=["steers"],
        summary="Steer a session's next model call",
        description="The text is put into the next call's body on its way to the provider, never into the machine, and into no other call.",
        parameters=[KEY, PROTOCOL],
        request=SteerWanted,
        responses={201: enveloped(SteerRow), **errors(400, 401, 403, 404, 409, 413, 415, 422, 426, 429, 503)},
        examples=[OpenApiExample("a text", value={"text": "Stop refactoring; make the test pass first."}, request_only=True)],
    )
    def post(self, request: Request, session_id: str) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(SteerWanted, data)
            kept = steers.add(sessions.find(self.account, session_id), wanted["text"])
            return Answer(dict(SteerRow(kept, context={"bodies": {}}).data), 201, session_id=kept.session_id)

        return self.record(request, do)
