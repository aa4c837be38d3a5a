"""Every route of the API as the URL patterns have it, with a request that is in order but for who asks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from sessions_app.api.auth import Needs
from sessions_app.api.envelope import Shape
from sessions_app.api.view import ApiView

BODIES: dict[str, Any] = {
    "sessions": {"Image": "tiny"},
    "session-checkpoint": {"Stop": True},
    "session-resume": {},
    "session-fork": {},
    "session-fork-plan": {"checkpoint_id": "ck_" + "0" * 24, "children": 1},
    "session-fork-by-plan": {"plan_id": "fplan_" + "0" * 24, "plan_digest": "0" * 64},
    "session-restore": {"checkpoint_id": "ck_" + "0" * 24, "reason": "test", "expected_revision": 1, "epoch": 1},
    "session-exec": {"Cmd": "true"},
    "session-pause": {},
    "session-deletion-plan": {},
    "account-deletion-plan": {},
    "account-deletion": {"plan_id": "aplan_" + "0" * 24, "confirm": "owner"},
    "session-resume-v2": {},
    "token-revoke": {},
    "device-code": {},
    "device-token": {"device_code": "unknown"},
    "tokens": {"name": "robot"},
    "members": {"user": "nobody", "role": "reader"},
    "member": {"role": "reader"},
    "operation-cancel": {},
    "workspaces": {},
    "session-checkpoint-policy": {"enabled": True, "expected_revision": 1},
    "session-idle": {"enabled": True, "expected_revision": 1},
    "session-recovery-policy": {"on_machine_loss": True, "expected_revision": 1},
    "session-checkpoint-point": {"name": "a-name"},
    "session-retention": {"enabled": False, "expected_revision": 0},
    "session-retention-preview": {"keep_last": 3},
    "retention": {"enabled": False, "expected_revision": 0},
    "retention-preview": {"keep_last": 3},
    "webhooks": {"url": "https://example.com/hook"},
    "webhook": {"expected_revision": 1, "enabled": True},
    "webhook-secret": {},
    "webhook-test": {},
    "webhook-redeliver": {},
    "session-list": {"name": "first"},
    "session-read": {"name": "second", "expected_revision": 1},
    "preflight": {},
    "session-provision": {"expected_revision": 1},
    "session-bindings": {"keys": {"anthropic": "vlt_1"}, "expected_revision": 1},
    "session-budget": {"tokens": 5000, "usd": "12.50", "expected_revision": 1},
    "session-steers": {"text": "Go left."},
    "session-egress": {"mode": "allow_list", "rules": [{"host": "example.com", "ports": [443]}], "expected_revision": 0},
    "account-budget": {"tokens": 5000, "usd": None, "expected_revision": 0},
    "keys": {"provider": "anthropic", "secret": "sk-of-a-test-0042", "alias": "a-name"},
    "key": {"enabled": False, "expected_revision": 1},
    "key-deletion-plan": {},
}
QUERIES = {"session-file-content": "?path=file", "session-file-download": "?path=file"}
PUBLIC = frozenset({"capabilities-public", "device-code", "device-token", "receipt"})


@dataclass(frozen=True)
class Route:
    name: str
    method: str
    pattern: str
    needs: Needs
    shape: Shape

    def path(self, *, session: str, operation: str) -> str:
        ids = {"session_id": session, "operation_id": operation}
        filled = re.sub(r"<\w+:(\w+)>", lambda found: ids.get(found[1], "none_such"), self.pattern)
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
    """From the URL configuration itself: a route that is added is in every test that asks for all of them."""
    for pattern, url in _patterns(get_resolver()):
        view = getattr(url.callback, "view_class", None)
        if view is None or not issubclass(view, ApiView) or pattern.startswith("^"):
            continue
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            if hasattr(view, method.lower()):
                yield Route(str(url.name), method, pattern, view.needs, view.shape)


def _patterns(resolver: URLResolver, before: str = "") -> Iterator[tuple[str, URLPattern]]:
    for url in resolver.url_patterns:
        path = before + str(url.pattern)
        if isinstance(url, URLResolver):
            yield from _patterns(url, path)
        else:
            yield path, url


def label(route: Route) -> str:
    return f"{route.method} {route.pattern}"
