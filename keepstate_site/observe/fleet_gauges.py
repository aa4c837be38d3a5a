"""What the database knows of each host, and of work that waits for one, as numbers."""

from collections.abc import Iterator

from django.db.models import Count, F, FloatField, Min
from django.db.models.functions import Cast, Extract, Now
from prometheus_client.core import GaugeMetricFamily, Metric

from gateway_app.services import process
from sessions_app.services.waiting import line
from workers.fleet import again
from workers.host import liveness
from workers.host.room import offered, room
from workers.models import Host

#: Hosts that have series of their own: those that were heard of last.
MOST_HOSTS = 200


def fleet_gauges() -> Iterator[Metric]:
    yield from _each_host()
    yield from _room()
    yield _without_gateway()
    yield from _waiting()
    yield _failed_resumes()


def _each_host() -> Iterator[Metric]:
    heartbeat = GaugeMetricFamily("keepstate_host_heartbeat_age_seconds", "Since the host was last heard of.", labels=["host"])
    observation = GaugeMetricFamily(
        "keepstate_host_observation_age_seconds",
        "Since the host last read a doorbell to look after itself; absent if never.",
        labels=["host"],
    )
    disk = GaugeMetricFamily("keepstate_host_disk_bytes", "The file system of the host's machines and cache.", labels=["host"])
    free = GaugeMetricFamily("keepstate_host_disk_free_bytes", "What of it is free; absent until the host has told.", labels=["host"])
    hosts = Host.objects.filter(retired_at=None).exclude(boot_id="").annotate(beat=_since("heartbeat_at"), seen=_since("observed_at"))
    for host, *figures in hosts.order_by("-heartbeat_at").values_list("id", "beat", "seen", "disk_bytes", "disk_free_bytes")[:MOST_HOSTS]:
        for gauge, figure in zip((heartbeat, observation, disk, free), figures, strict=True):
            if figure is not None:
                gauge.add_metric([host], figure)
    yield from (heartbeat, observation, disk, free)


def _room() -> Iterator[Metric]:
    """Of the hosts that are heard of: what they offer to machines, and what of it nobody has been promised."""
    offers = GaugeMetricFamily("keepstate_host_offered_bytes", "Memory that the host offers to machines.", labels=["host"])
    left = GaugeMetricFamily("keepstate_host_room_bytes", "What of it is not promised; below 0: more is promised.", labels=["host"])
    hosts = list(liveness.alive().order_by("id")[:MOST_HOSTS])
    free = room(hosts)
    for host in hosts:
        offers.add_metric([host.id], offered(host))
        left.add_metric([host.id], free[host.id])
    yield from (offers, left)


def _since(column: str) -> Cast:
    return Cast(Extract(Now() - F(column), "epoch"), FloatField())


def _without_gateway() -> Metric:
    gauge = GaugeMetricFamily("keepstate_hosts_without_gateway", "Live hosts whose machines no gateway answers.")
    gauge.add_metric([], len(set(liveness.alive().values_list("id", flat=True)) - process.serving_hosts()))
    return gauge


def _waiting() -> Iterator[Metric]:
    """Operations that no host has room for, or may take."""
    count = GaugeMetricFamily("keepstate_operations_waiting", "Accepted operations that wait for a host.", labels=["reason"])
    oldest = GaugeMetricFamily("keepstate_operation_waiting_oldest_seconds", "How long the oldest of them waits.")
    waiting = line().order_by()
    for reason, number in waiting.values_list("waits_for").annotate(Count("id")):
        count.add_metric([reason], number)
    oldest.add_metric([], waiting.aggregate(age=Cast(Extract(Now() - Min("due_at"), "epoch"), FloatField()))["age"] or 0.0)
    yield from (count, oldest)


def _failed_resumes() -> Metric:
    """Of the last day, of those that the service had asked for after a loss or for a move."""
    gauge = GaugeMetricFamily("keepstate_failed_resumes", "Resumes after a loss or a move that failed within a day.", labels=["state"])
    gauge.add_metric(["to_be_tried_again"], again.unanswered().count())
    gauge.add_metric(["given_up"], again.failures().filter(progress__again=again.Answer.GIVEN_UP).count())
    return gauge
