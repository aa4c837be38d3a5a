"""The capability document: one for callers, and a copy that needs no token."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.auth import ANY_TOKEN, PerAddress
from sessions_app.api.envelope import Shape
from sessions_app.api.schema import enveloped, errors
from sessions_app.api.view import ApiView
from sessions_app.services import capability


class CapabilityWords(serializers.Serializer[Any]):
    id = serializers.CharField()
    availability = serializers.CharField(help_text="available, degraded or unavailable; only available may be relied on.")
    summary = serializers.CharField()
    surface = serializers.CharField()
    prerequisites = serializers.ListField(child=serializers.CharField())
    limits = serializers.DictField()
    note = serializers.CharField(allow_blank=True)
    since_protocol = serializers.IntegerField()
    unavailable_reason = serializers.CharField(allow_null=True)


class ProtocolWords(serializers.Serializer[Any]):
    current = serializers.IntegerField()
    minimum_client = serializers.IntegerField()
    header = serializers.CharField()


class CapabilityDocument(serializers.Serializer[Any]):
    registry_version = serializers.CharField()
    build = serializers.CharField()
    fetched_at = serializers.DateTimeField()
    price_book = serializers.JSONField(allow_null=True)
    capabilities = CapabilityWords(many=True)
    limits = serializers.DictField(child=serializers.IntegerField())
    protocol = ProtocolWords()
    states = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))


class CapabilitiesView(ApiView):
    shape = Shape.V2
    needs = ANY_TOKEN

    @extend_schema(
        operation_id="capabilities",
        tags=["discovery"],
        summary="What this installation can do",
        responses={200: enveloped(CapabilityDocument), **errors(401, 403)},
    )
    def get(self, request: Request) -> Response:
        return self.answer(CapabilityDocument(capability.document()).data)


class PublicCapabilitiesView(ApiView):
    shape = Shape.V2
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = (PerAddress,)

    @extend_schema(
        operation_id="capabilities_public",
        tags=["discovery"],
        summary="The same document without a token",
        auth=[],
        responses={200: enveloped(CapabilityDocument), **errors(426, 429)},
    )
    def get(self, request: Request) -> Response:
        return self.answer(CapabilityDocument(capability.document()).data)
