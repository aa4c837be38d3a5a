"""What the web process counts itself: requests by route, method and status, and how long they took."""

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from prometheus_client import Counter, Histogram

Handler = Callable[[HttpRequest], HttpResponse]

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
REQUESTS = Counter("keepstate_requests", "Requests by route, method and status.", ["route", "method", "status"])
SECONDS = Histogram(
    "keepstate_request_seconds", "How long requests took; a mutation that waits for its outcome counts whole.", ["route"], buckets=_BUCKETS
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetricsMiddleware:
    """Labels are names of routes, never paths: what a client writes makes no series."""

    def __init__(self, handler: Handler):
        self.handler = handler

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = self.handler(request)
        match = request.resolver_match
        route = (match.view_name if match else None) or "unknown"
        method = request.method if request.method in _METHODS else "other"
        REQUESTS.labels(route, method, str(response.status_code)).inc()
        SECONDS.labels(route).observe(time.perf_counter() - started)
        return response
