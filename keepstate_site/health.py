"""Is the process up (healthz), and could it do its work now (readyz)?"""

from collections.abc import Callable

import redis
import structlog
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

log = structlog.get_logger("keepstate.health")
REDIS_SECONDS = 2


@require_safe
def healthz(_request: HttpRequest) -> JsonResponse:
    """200 while the process serves requests at all; touches nothing else."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(_request: HttpRequest) -> JsonResponse:
    """200 iff database and broker answer, else 503 naming which did not. Causes go to the log, not to a stranger."""
    parts = {"database": _answers("database", _ask_database), "broker": _answers("broker", _ask_broker)}
    ready = all(parts.values())
    return JsonResponse({"status": "ready" if ready else "not ready", **parts}, status=200 if ready else 503)


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _ask_broker() -> None:
    with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS) as client:
        client.ping()


def _answers(name: str, ask: Callable[[], None]) -> bool:
    try:
        ask()
    except Exception as error:  # whatever the cause is, "not ready" is the answer
        log.warning("not_ready", part=name, error=str(error))
        return False
    return True
