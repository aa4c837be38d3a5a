"""The body of a request: bounded, strictly JSON (or, where a route takes it, a form), and with no field that its route does not know."""

import difflib
import json
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from django.http.request import UnreadablePostError
from rest_framework import serializers
from rest_framework.request import Request

from sessions_app.errors import Invalid, NotJson, TooLarge
from sessions_app.services.bounds import BODY_BYTES

S = TypeVar("S", bound="Body")
_SHOWN = 60
_FORM_FIELDS = 20


class Body(serializers.Serializer[Any]):
    """A request's fields. A field that is not known is refused by name: a misspelt budget must never start a session."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, Mapping):
            raise serializers.ValidationError({"body": ["must be a JSON object"]})
        unknown = [name for name in data if name not in self.fields]
        if unknown:
            raise serializers.ValidationError({name[:_SHOWN]: [self._unknown(name)] for name in unknown[:5]})
        return super().to_internal_value(data)

    def _unknown(self, name: str) -> str:
        alike = {str(known).lower(): known for known in self.fields}
        near = difflib.get_close_matches(name[:_SHOWN].lower(), alike, n=1)
        return f"is not a field of this request{f'; did you mean {alike[near[0]]}?' if near else ''}"


def read(request: Request, *, forms: bool = False) -> Any:
    """What the body says, {} for none; with `forms` also of a form, as text. Read from the stream itself: a body without a Content-Length
    is neither unbounded nor overlooked.
    """
    try:
        raw = request._request.read(BODY_BYTES + 1)
    except UnreadablePostError as error:
        raise Invalid("The body could not be read to its end. Nothing was done.") from error
    if len(raw) > BODY_BYTES:
        raise TooLarge(f"A body has at most {BODY_BYTES} bytes. Nothing was done.")
    if not raw.strip():
        return {}
    kind = request.content_type.partition(";")[0].strip().lower()
    if forms and kind == "application/x-www-form-urlencoded":
        return _form(raw)
    if kind != "application/json":
        raise NotJson("The body must be JSON. Nothing was done.", next_action="Send it with Content-Type: application/json.")
    try:
        data = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
        json.dumps(data, ensure_ascii=False).encode()  # half of a surrogate pair is text that nothing can store or answer
    except (ValueError, RecursionError) as error:
        raise Invalid("The body is not valid JSON. Nothing was done.", facts={"detail": _detail(error)}) from error
    return data


def _form(raw: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_FORM_FIELDS)
        return _unique(list(pairs))
    except ValueError as error:
        raise Invalid("The body is not a valid form. Nothing was done.") from error


def checked(kind: type[S], data: Any) -> dict[str, Any]:
    """The validated fields. Raises Invalid, naming each field that is wrong and why."""
    serializer = kind(data=data)
    if serializer.is_valid():
        return dict(serializer.validated_data)
    wrong = {name: " ".join(_texts(reasons)) for name, reasons in serializer.errors.items()}
    told = " ".join(f"{name}: {reason}." for name, reason in sorted(wrong.items()))
    raise Invalid(
        f"{told} Nothing was done.", next_action="Correct the request; its fields are described at /api/docs.", facts={"fields": wrong}
    )


def _texts(reasons: Any) -> list[str]:
    """The texts in a field's errors, however deep a list's own errors nest them; the first few are enough."""
    if isinstance(reasons, str):
        return [reasons.rstrip(".")]
    nested = reasons.values() if isinstance(reasons, Mapping) else reasons
    return [text for reason in list(nested)[:3] for text in _texts(reason)][:3]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field is given twice")
    return found


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _detail(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).encode("ascii", "backslashreplace").decode()[:200]
