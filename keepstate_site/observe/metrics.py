"""/metrics, in Prometheus' format: what this process counted, and what the database knows."""

import hmac
import ipaddress
from collections.abc import Iterator

from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from keepstate_site.observe.gauges import all_gauges

#: Scrapes within so long of each other read the database once.
GAUGE_SECONDS = 5


class _Gauges(Collector):
    def collect(self) -> Iterator[Metric]:
        yield from all_gauges()


_gauges = CollectorRegistry(auto_describe=False)
_gauges.register(_Gauges())


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """To whoever shows KEEPSTATE_METRICS_TOKEN; without one set, to this machine alone, and to nobody where a proxy stands in between.

    To all others the route does not exist.
    """
    if not _may_read(request):
        return HttpResponseNotFound()
    kept = caches["process"]
    gauges = kept.get("gauges")
    if gauges is None:
        gauges = generate_latest(_gauges)
        kept.set("gauges", gauges, GAUGE_SECONDS)
    return HttpResponse(generate_latest(REGISTRY) + gauges, content_type=CONTENT_TYPE_LATEST)


def _may_read(request: HttpRequest) -> bool:
    token: str = settings.KEEPSTATE_METRICS_TOKEN
    if token:
        return hmac.compare_digest(request.headers.get("Authorization", "").encode(), f"Bearer {token}".encode())
    return settings.SECURE_PROXY_SSL_HEADER is None and _is_loopback(str(request.META.get("REMOTE_ADDR", "")))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
