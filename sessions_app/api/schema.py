"""Pieces of the OpenAPI description that several routes share."""

from functools import cache
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, inline_serializer
from rest_framework import serializers

MEANINGS = {
    400: "Malformed or not allowed; nothing was done",
    401: "No valid token",
    403: "The token lacks a scope",
    404: "There is no such record (ks_not_found)",
    409: "The record is busy, in another state, or lacks what is needed; nothing was done",
    412: "There is such a file already; nothing was done",
    413: "The body is too large; nothing was done",
    415: "The body is not JSON; nothing was done",
    416: "The range lies outside of the file",
    422: "Stored content is not what was saved; refused",
    426: "The client speaks too old a protocol; nothing was done",
    428: "Nobody has decided yet",
    429: "Too many requests; nothing was done, and Retry-After says when to ask again",
    500: "The work failed; the message says what is intact",
    503: "No host or database can serve it now",
    504: "The guest did not answer",
}


class ErrorFacts(serializers.Serializer[Any]):
    """A refusal or failure. `code` and `type` are the same stable word; further facts stand beside these fields."""

    code = serializers.CharField()
    type = serializers.CharField()
    message = serializers.CharField(help_text="What happened and what did not.")
    next_action = serializers.CharField(allow_blank=True, help_text="What to do now.")


class ErrorEnvelope(serializers.Serializer[Any]):
    schema_version = serializers.IntegerField()
    error = ErrorFacts()


class PlainError(serializers.Serializer[Any]):
    """A refusal or failure of a plain route; further facts stand beside these fields."""

    error = serializers.CharField(help_text="The stable word, such as ks_conflict.")
    message = serializers.CharField(help_text="What happened and what did not.")
    next_action = serializers.CharField(allow_blank=True, help_text="What to do now.")


KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="8 to 100 visible ASCII characters. The same request under the same key has one effect and one answer.",
    examples=[OpenApiExample("key", value="ksop_0123456789abcdef0123456789abcdef")],
)
PREFER = OpenApiParameter(
    "Prefer",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="`respond-async` answers 202 with the operation at once, without waiting for its end.",
)
PROTOCOL = OpenApiParameter(
    "X-KS-Protocol", OpenApiTypes.INT, OpenApiParameter.HEADER, description="The client's protocol number; absent is taken."
)
MUTATION = [KEY, PREFER, PROTOCOL]


def page_parameters(default: int, allowed: range) -> list[OpenApiParameter]:
    return [
        OpenApiParameter(
            "limit", OpenApiTypes.INT, description=f"Rows of a page: {allowed.start} to {allowed.stop - 1}, by default {default}."
        ),
        OpenApiParameter("cursor", OpenApiTypes.STR, description="`next_cursor` of the page before; an empty one ends the list."),
    ]


def errors(*statuses: int, v2: bool = True) -> dict[int, OpenApiResponse]:
    shape = ErrorEnvelope if v2 else PlainError
    return {status: OpenApiResponse(shape, MEANINGS[status]) for status in statuses}


@cache  # one component per row, however many routes answer with it
def enveloped(kind: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    fields = {"schema_version": serializers.IntegerField(), "data": kind()}
    return inline_serializer(f"{kind.__name__}Envelope", fields)


@cache
def page_of(kind: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    inner = inline_serializer(f"{kind.__name__}Page", {"items": kind(many=True), "next_cursor": serializers.CharField(allow_blank=True)})
    return inline_serializer(f"{kind.__name__}PageEnvelope", {"schema_version": serializers.IntegerField(), "data": inner})


#: What any route can answer, whatever it does: a bad header, too old a client, too many requests, a fault, a database that is away.
_EVERYWHERE = (400, 426, 429, 500, 503)
_WITH_A_TOKEN = (401, 403)


def add_common_answers(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A step of the generator: each operation is described with the refusals that come before and around its view."""
    for path, methods in result["paths"].items():
        for described in methods.values():
            answers = described["responses"]
            v2 = any("ErrorEnvelope" in str(answer) for answer in answers.values()) or path.startswith("/api/v2/")
            shape = {"$ref": f"#/components/schemas/{'ErrorEnvelope' if v2 else 'PlainError'}"}
            for status in (*_EVERYWHERE, *(_WITH_A_TOKEN if described.get("security") else ())):
                answers.setdefault(str(status), {"content": {"application/json": {"schema": shape}}, "description": MEANINGS[status]})
    return result
