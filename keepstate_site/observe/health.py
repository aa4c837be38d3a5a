"""Is the process up (healthz), and could the service do its work now (readyz)?"""

from collections.abc import Callable

import redis
import structlog
from django.conf import settings
from django.core.cache import caches
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe
from redis.backoff import NoBackoff
from redis.retry import Retry

from checkpoints_app.services import storage
from gateway_app.services import process
from keepstate_site.observe import sweeps
from keepstate_site.observe.asking import Question
from workers.host import liveness
from workers.relay import trust

log = structlog.get_logger("keepstate.health")
REDIS_SECONDS = 1
#: What has not answered by then counts as away. A balancer that asks waits no longer either.
ANSWER_SECONDS = 5
#: The store is asked at most so often, however often the route is.
STORE_SECONDS = 15


@require_safe
def healthz(_request: HttpRequest) -> JsonResponse:
    """200 while the process serves requests at all; touches nothing else."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(_request: HttpRequest) -> JsonResponse:
    """503 iff this process cannot serve: the database does not answer.

    What else is missing is told as `degraded` with 200, for it is nothing that another web process would have, and reads and accepted
    mutations go on without it: the broker or the store does not answer, no host is alive with its vm worker, a live host's machines have
    no gateway, a sweep is late. So is what this process alone may lack, the master key of the hosts. Causes go to the log, not to a
    stranger.
    """
    if not DATABASE.answers(ANSWER_SECONDS):
        return JsonResponse({"status": "not ready", "database": False}, status=503)
    late = [one.name for one in sweeps.ages() if one.late]
    wanted = {"broker": broker_answers(), "store": store_answers(), "workers": _holds("workers", _ask_workers)}
    wanted |= {"gateway": _holds("gateway", _ask_gateway), "master_key": _holds("master_key", _ask_master_key)}
    wanted["sweeps"] = not late
    status = "ready" if all(wanted.values()) else "degraded"
    return JsonResponse({"status": status, "database": True, **wanted, "late_sweeps": late})


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _ask_broker() -> None:
    once, limits = Retry(NoBackoff(), 0), {"socket_timeout": REDIS_SECONDS, "socket_connect_timeout": REDIS_SECONDS}
    with redis.Redis.from_url(settings.REDIS_URL, retry=once, **limits) as client:
        client.set("ks:asked", 1, ex=REDIS_SECONDS)  # one that is full answers a ping, and takes no doorbell


def _ask_workers() -> None:
    if not liveness.begins_machines().exists():
        raise LookupError("no host is alive, or none with its vm worker")


def _ask_gateway() -> None:
    hosts = set(liveness.alive().values_list("id", flat=True))
    missing = sorted(hosts - process.serving_hosts())
    if missing or not hosts:
        raise LookupError(f"no gateway serves the machines of {', '.join(missing) or 'any host'}")


def _ask_master_key() -> None:
    if others := trust.hosts_with_other_keys():
        raise LookupError(f"the relays of {', '.join(others)} have another master key than this process")


def broker_answers() -> bool:
    return BROKER.answers(ANSWER_SECONDS)


def store_answers() -> bool:
    """As it was some seconds ago at most."""
    kept = caches["process"]
    known = kept.get("store_answers")
    if known is None:
        known = STORE.answers(ANSWER_SECONDS)
        kept.set("store_answers", known, STORE_SECONDS)
    return bool(known)


def _holds(name: str, ask: Callable[[], None]) -> bool:
    try:
        ask()
    except LookupError as error:
        log.warning("not_ready", part=name, error=str(error))
        return False
    return True


DATABASE, BROKER = Question("database", _ask_database), Question("broker", _ask_broker)
STORE = Question("store", storage.require_known)
