"""Every route of the API as the URL patterns have it, with a request that is in order but for who asks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from checkpoints_app.api import urls as checkpoint_urls
from sessions_app.api import urls as session_urls
from sessions_app.api.auth import Needs

BODIES: dict[str, Any] = {
    "sessions": {"Image": "tiny"},
    "session-checkpoint": {"Stop": True},
    "session-resume": {},
    "session-fork": {},
    "session-exec": {"Cmd": "true"},
    "session-pause": {},
    "session-resume-v2": {},
    "token-revoke": {},
    "operation-cancel": {},
    "session-checkpoint-policy": {"enabled": True, "expected_revision": 1},
    "session-idle": {"enabled": True, "expected_revision": 1},
    "webhooks": {"url": "https://example.com/hook"},
    "webhook": {"expected_revision": 1, "enabled": True},
    "webhook-secret": {},
    "webhook-test": {},
    "webhook-redeliver": {},
}
QUERIES = {"session-file-content": "?path=file", "session-file-download": "?path=file"}
PUBLIC = frozenset({"capabilities-public"})


@dataclass(frozen=True)
class Route:
    name: str
    method: str
    pattern: str
    needs: Needs

    def path(self, *, session: str, operation: str) -> str:
        filled = self.pattern.replace("<str:session_id>", session).replace("<path:operation_id>", operation)
        filled = re.sub(r"<\w+:\w+>", "none_such", filled)
        return "/" + filled + ("?force=1" if self.method == "DELETE" else QUERIES.get(self.name, ""))

    @property
    def body(self) -> Any:
        return BODIES.get(self.name) if self.name in QUERIES else BODIES[self.name] if self.method in ("POST", "PUT", "PATCH") else None

    @property
    def described_as(self) -> str:
        """The path as the OpenAPI description writes it."""
        return "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", self.pattern)

    @property
    def names_a_record(self) -> bool:
        return "<" in self.pattern


def routes() -> Iterator[Route]:
    for url in [*session_urls.urlpatterns, *checkpoint_urls.urlpatterns]:
        view = cast("Any", url.callback).view_class
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            if hasattr(view, method.lower()):
                yield Route(str(url.name), method, str(url.pattern), view.needs)


def label(route: Route) -> str:
    return f"{route.method} {route.pattern}"
