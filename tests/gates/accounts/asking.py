"""Requests of every route, made from the URL configuration and the OpenAPI description: whatever names a record is filled in."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator

from tests.integration.api.routes import BODIES, QUERIES, Route
from tests.support.api import Caller
from tests.unit.archive.kit import TAR, tar_of

#: Fields of bodies and queries that name a record, by the parameter of a path that names the same.
FIELDS = {"checkpoint_id": "checkpoint_id", "Checkpoint": "checkpoint_id", "Workspace": "workspace_id", "workspace": "workspace_id",
          "session_id": "session_id"}  # fmt: skip
#: Fields that look as if they named a record, and name none of the service's.
NO_RECORDS = frozenset({"client_id"})
#: Bodies that ask for more than those of other tests: a plan that is really looked at, an image that is there.
ASKING: dict[str, Any] = {
    name: {"enabled": True, "keep_last": 1, "expected_revision": 0, "plan_digest": ""} for name in ("retention", "session-retention")
}
ASKING["session-list"] = {"name": "first", "image": "tiny"}
#: Bodies that are no JSON.
RAW = {"workspaces": (tar_of(("file", "content")), TAR)}
_PARAMETER = re.compile(r"<\w+:(\w+)>")


class CannotFill(AssertionError):
    """A route names a record of which there is none here: add it to `scene.ids_of`, or to FIELDS."""


@dataclass(frozen=True)
class Ids:
    by_name: Mapping[str, str]
    plans: Mapping[str, tuple[str, str | None]]  # by the route that executes it: its id and digest
    revision: int
    epoch: int
    account_name: str

    def of(self, name: str, route: Route) -> str:
        if name == "plan_id":
            return self.plan(route)[0]
        if name not in self.by_name:
            raise CannotFill(f"{route.method} {route.pattern}: {name}")
        return self.by_name[name]

    def plan(self, route: Route) -> tuple[str, str | None]:
        if route.name not in self.plans:
            raise CannotFill(f"{route.method} {route.pattern}: a plan")
        return self.plans[route.name]


@dataclass(frozen=True)
class Request:
    """`foreign`: how many records other than the path's session it names."""

    route: Route
    path: str
    body: Any
    names: int
    foreign: int


def fill(route: Route, ids: Ids, session_id: str | None = None) -> Request:
    """The route with every record that it can name taken from `ids`; `session_id` names another session in the path. Raises CannotFill."""
    parameters = _PARAMETER.findall(route.pattern)
    chosen = {name: ids.of(name, route) for name in parameters}
    if session_id is not None and "session_id" in chosen:
        chosen["session_id"] = session_id
    queries, fields = _described(route)
    query = dict(part.split("=") for part in QUERIES.get(route.name, "").lstrip("?").split("&") if part)
    query |= {name: ids.of(FIELDS.get(name, name), route) for name in queries if _names_a_record(name)}
    if route.method == "DELETE" and "force" in queries:
        query["force"] = "1"
    body = ASKING.get(route.name, BODIES.get(route.name)) if route.method in ("POST", "PUT", "PATCH") else None
    named = [name for name in fields if _names_a_record(name)]
    if isinstance(body, dict):
        body = {**body, **{name: ids.of(FIELDS.get(name, name), route) for name in named}, **_facts(route, ids, body)}
    path = "/" + _PARAMETER.sub(lambda found: chosen[found[1]], route.pattern)
    text = "?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else ""
    foreign = len([name for name in parameters if name != "session_id"]) + len(named) + sum(map(_names_a_record, queries))
    foreign += isinstance(body, dict) and "keys" in body
    return Request(route, path + text, body, foreign + ("session_id" in parameters), foreign)


def ask(caller: Caller, request: Request, *, key: str | None = None) -> Any:
    """Mutations prefer an answer at once."""
    if request.route.name not in RAW or request.route.method != "POST":
        return caller(request.route.method, request.path, request.body, key=key)
    data, media_type = RAW[request.route.name]
    headers = {"X-KS-Protocol": "2", **({"Authorization": f"Bearer {caller.plain}"} if caller.plain else {})}
    headers |= {"Idempotency-Key": key} if key else {}
    return caller.client.generic("POST", request.path, data, content_type=media_type, headers=headers)


def _facts(route: Route, ids: Ids, body: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"epoch": ids.epoch} if "epoch" in body else {}
    if "keys" in body:
        facts["keys"] = {"anthropic": ids.of("key_id", route)}
    if "confirm" in body:
        facts["confirm"] = ids.account_name
    if "plan_digest" in body:
        facts["plan_digest"] = ids.plan(route)[1]
    if body.get("expected_revision") and "session_id" in route.pattern:
        facts["expected_revision"] = ids.revision
    return facts


def _names_a_record(name: str) -> bool:
    return name in FIELDS or (name.endswith("_id") and name not in NO_RECORDS)


@cache
def _document() -> dict[str, Any]:
    return json.loads(json.dumps(SchemaGenerator().get_schema(request=None, public=True)))


def _described(route: Route) -> tuple[list[str], list[str]]:
    """Names of the query's parameters and of the body's fields."""
    operation = _document()["paths"].get(route.described_as, {}).get(route.method.lower())
    if operation is None:
        raise CannotFill(f"{route.method} {route.pattern} is not described")
    queries = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
    schemas = [
        content["schema"].get("$ref", "").rpartition("/")[2] for content in operation.get("requestBody", {}).get("content", {}).values()
    ]
    fields = {name for schema in schemas if schema for name in _document()["components"]["schemas"][schema].get("properties", {})}
    return queries, sorted(fields)
