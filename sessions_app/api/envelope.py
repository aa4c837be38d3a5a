"""The two shapes of answers: the v2 envelope, and the bare objects of the plain routes."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

SCHEMA_VERSION = 2


class Shape(StrEnum):
    PLAIN = "plain"
    V2 = "v2"


def success(shape: Shape, data: Any) -> Any:
    return {"schema_version": SCHEMA_VERSION, "data": data} if shape == Shape.V2 else data


def failure(shape: Shape, error: Mapping[str, Any]) -> dict[str, Any]:
    """`error` as `ServiceError.as_dict` gives it: code, type, message, next_action, and the facts beside them."""
    if shape == Shape.V2:
        return {"schema_version": SCHEMA_VERSION, "error": dict(error)}
    facts = {name: value for name, value in error.items() if name not in ("code", "type")}
    return {"error": error.get("code"), **facts}
