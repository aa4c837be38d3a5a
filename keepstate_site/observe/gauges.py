"""What the database knows of the service's state, as numbers: read at a scrape, a few bounded queries."""

from collections.abc import Iterator

from django.db.models import Count, FloatField, Max, Min, Sum
from django.db.models.functions import Cast, Extract, Now
from prometheus_client.core import GaugeMetricFamily, Metric

from checkpoints_app.models import Checkpoint, Pack
from checkpoints_app.services import scrub
from checkpoints_app.states import CheckpointState, PackState
from gateway_app.services import process
from keepstate_site.observe import health, sweeps
from keepstate_site.observe.fleet_gauges import fleet_gauges
from sessions_app.models import Operation, Session, WebhookDelivery
from sessions_app.states import OPERATION_ACTIVE, SESSION_LIVE, DeliveryState, OperationState, SessionState
from workers.host import holders, liveness
from workers.host.state import counted


def all_gauges() -> Iterator[Metric]:
    yield _sessions()
    yield from _operations()
    yield from _hosts()
    yield from _gateways()
    yield from _sweeps()
    yield _webhooks()
    yield from fleet_gauges()
    yield from _kept()
    yield _parts()


def _sessions() -> Metric:
    gauge = GaugeMetricFamily("keepstate_sessions", "Sessions by state; deleted ones are not counted.", labels=["state"])
    counted = Session.objects.exclude(runtime_state=SessionState.DELETED).values_list("runtime_state").annotate(Count("id"))
    known = dict(counted)
    for state in SessionState:
        if state != SessionState.DELETED:
            gauge.add_metric([state], known.get(state, 0))
    return gauge


def _operations() -> Iterator[Metric]:
    """Of those that have not ended: how many, and how long the oldest waits or runs."""
    count = GaugeMetricFamily("keepstate_operations", "Operations that have not ended.", labels=["kind", "state"])
    oldest = GaugeMetricFamily(
        "keepstate_operation_oldest_seconds",
        "Age of the oldest operation that has not ended, and waits for no host; of a queued one since it could begin.",
        labels=["state"],
    )
    expired = GaugeMetricFamily("keepstate_operation_leases_expired", "Running operations whose worker is silent.")
    for state in sorted(OPERATION_ACTIVE):  # one at a time: each has an index of its own
        active = Operation.objects.filter(state=state)
        for kind, number in active.values_list("kind").annotate(Count("id")):
            count.add_metric([kind, state], number)
        since = "due_at" if state == OperationState.QUEUED else "accepted_at"  # one that waited for a host could not begin before
        oldest.add_metric([state], active.filter(waits_for="").aggregate(age=_age(since))["age"] or 0.0)
    expired.add_metric([], Operation.objects.filter(state=OperationState.RUNNING, lease_expires_at__lt=Now()).count())
    yield from (count, oldest, expired)


def _age(column: str) -> Cast:
    return Cast(Extract(Now() - Min(column), "epoch"), FloatField())


def _hosts() -> Iterator[Metric]:
    hosts = GaugeMetricFamily("keepstate_hosts", "Hosts by what they are now.", labels=["state"])
    memory = GaugeMetricFamily("keepstate_host_memory_bytes", "Memory of the hosts that are alive.")
    used = GaugeMetricFamily("keepstate_machine_memory_bytes", "Memory of the machines that run.")
    alive = liveness.alive()
    for state, number in counted().items():
        hosts.add_metric([state], number)
    memory.add_metric([], alive.aggregate(sum=Sum("memory_bytes"))["sum"] or 0)
    used.add_metric([], Session.objects.filter(runtime_state__in=SESSION_LIVE).aggregate(sum=Sum("memory_bytes"))["sum"] or 0)
    unheld = GaugeMetricFamily("keepstate_pins_unheld", "Valid checkpoints whose pin no live host holds, up to 100,000.")
    unheld.add_metric([], holders.unheld())
    yield from (hosts, memory, used, unheld)


def _gateways() -> Iterator[Metric]:
    """As each told it last, some seconds ago; one that is silent is in none of them."""
    running = GaugeMetricFamily("keepstate_gateways", "Gateway processes that are heard of.", labels=["state"])
    doors = GaugeMetricFamily("keepstate_gateway_doors", "Machines that gateways listen to.")
    calls = GaugeMetricFamily("keepstate_gateway_calls", "Model calls that are being read from providers.")
    streams = GaugeMetricFamily("keepstate_gateway_streams", "Of these, calls whose answer is streamed.")
    database = GaugeMetricFamily("keepstate_gateway_database_seconds", "The slowest gateway's last statement.")
    alive = process.fresh()
    draining = alive.filter(draining=True).count()
    running.add_metric(["serving"], alive.count() - draining)
    running.add_metric(["draining"], draining)
    told = alive.aggregate(doors=Sum("doors"), calls=Sum("calls"), streams=Sum("streams"), database=Max("database_seconds"))
    for gauge, name in ((doors, "doors"), (calls, "calls"), (streams, "streams")):
        gauge.add_metric([], told[name] or 0)
    if told["database"] is not None:
        database.add_metric([], told["database"])
    yield from (running, doors, calls, streams, database)


def _sweeps() -> Iterator[Metric]:
    age = GaugeMetricFamily("keepstate_sweep_age_seconds", "Since a sweep's last turn ended; absent if none was seen.", labels=["sweep"])
    late = GaugeMetricFamily("keepstate_sweep_late", "1 if the last turn is older than three intervals and a minute.", labels=["sweep"])
    failed = GaugeMetricFamily("keepstate_sweep_failed", "1 if the last turn ended with an error.", labels=["sweep"])
    for one in sweeps.ages():
        if one.age_seconds is not None:
            age.add_metric([one.name], one.age_seconds)
        late.add_metric([one.name], int(one.late))
        failed.add_metric([one.name], int(bool(one.error)))
    yield from (age, late, failed)


def _webhooks() -> Metric:
    gauge = GaugeMetricFamily("keepstate_webhook_messages_pending", "Messages of webhooks that are not taken yet.")
    gauge.add_metric([], WebhookDelivery.objects.filter(state=DeliveryState.PENDING).count())
    return gauge


def _kept() -> Iterator[Metric]:
    """What reading everything again has found of what is stored."""
    corrupt = GaugeMetricFamily("keepstate_corrupt", "Stored things that are damaged or missing, and are not healed.", labels=["what"])
    corrupt.add_metric(["checkpoint"], Checkpoint.objects.filter(state=CheckpointState.CORRUPT).count())
    corrupt.add_metric(["pack"], Pack.objects.filter(state=PackState.CORRUPT).count())
    behind = GaugeMetricFamily("keepstate_scrub_behind", "1 if something stored was not read for longer than KEEPSTATE_SCRUB_DAYS.")
    behind.add_metric([], int(scrub.behind()))
    yield from (corrupt, behind)


def _parts() -> Metric:
    answers = GaugeMetricFamily(
        "keepstate_answers", "1 if the part answers this web process; without the database nothing does.", labels=["part"]
    )
    answers.add_metric(["broker"], int(health.broker_answers()))
    answers.add_metric(["store"], int(health.store_answers()))
    return answers
