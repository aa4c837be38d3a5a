"""What every request gets: an id in logs and answer, one log line, and a content policy."""

import re
import secrets
import time
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from keepstate_site.settings.security import ADMIN_CONTENT_POLICY, ADMIN_PREFIX, CONTENT_POLICY

GIVEN_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
log = structlog.get_logger("keepstate.request")

Handler = Callable[[HttpRequest], HttpResponse]


class RequestIdMiddleware:
    """Binds `request_id` to all log lines of the request and answers it as X-Request-Id. A caller's own id is kept if it is plain."""

    def __init__(self, handler: Handler):
        self.handler = handler

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-Id", "")
        request_id = given if GIVEN_ID.fullmatch(given) else f"req_{secrets.token_hex(8)}"
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started = time.monotonic()
        response = self.handler(request)
        response["X-Request-Id"] = request_id
        if request.path not in QUIET:
            seconds = round(time.monotonic() - started, 4)
            log.info("request", method=request.method, path=_shown_path(request), status=response.status_code, seconds=seconds)
        return response


def _shown_path(request: HttpRequest) -> str:
    """A path that no route has may hold anything that somebody pasted."""
    match = request.resolver_match
    return request.path if match and "rest" not in match.kwargs else "(no route)"


class ContentPolicyMiddleware:
    """Pages load nothing from elsewhere and cannot be framed."""

    def __init__(self, handler: Handler):
        self.handler = handler

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.handler(request)
        policy = ADMIN_CONTENT_POLICY if request.path.startswith(ADMIN_PREFIX) else CONTENT_POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        return response
