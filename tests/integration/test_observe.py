"""What an operator and a scraper see of the service: readiness, metrics, the age of every sweep."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.conf import settings as conf
from django.core.cache import caches
from django.db.models import F
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from checkpoints_app.models import Sweep
from gateway_app.models import GatewayProcess
from keepstate_site.observe import health, sweeps
from sessions_app.models import Operation
from sessions_app.states import SessionState
from tests.support.fixtures import doorbells, owner
from tests.support.fleet import HOST, Tenant, boot_asked, session_row
from workers.models import Host, HostRelay
from workers.relay import proof

__all__ = ["doorbells", "owner"]
pytestmark = pytest.mark.django_db
MASTER = b"the fleet's".ljust(32)
SCHEDULE: dict[str, dict[str, Any]] = conf.CELERY_BEAT_SCHEDULE  # type: ignore[misc]  # made by the settings' own parts


@pytest.fixture(autouse=True)
def fresh() -> None:
    caches["process"].clear()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.BROKER, "ask", lambda: None)  # whose part is tested with a real one in the stack's tests


def gateway_serves() -> GatewayProcess:
    return GatewayProcess.objects.create(name="one", host_id=HOST, doors=3, calls=2, streams=1, database_seconds=0.002)


def all_sweeps_ran() -> None:
    for name in SCHEDULE:
        Sweep.objects.update_or_create(name=name, defaults={"finished_at": timezone.now(), "error": ""})


def scraped(client: Client, **headers: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.content.decode())
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for family in families for sample in family.samples}


def test_every_entry_of_the_beats_schedule_leaves_a_row_with_its_age(owner: Tenant) -> None:
    current_app.loader.import_default_modules()
    for name, entry in SCHEDULE.items():
        current_app.tasks[entry["task"]].run()
        assert Sweep.objects.filter(name=name, finished_at__isnull=False, error="").exists(), name
    assert all(one.state == "ok" for one in sweeps.ages())


def test_a_sweep_that_has_not_had_its_first_turn_is_late_only_when_one_is_due(owner: Tenant) -> None:
    from workers import turns

    assert all(one.late for one in sweeps.ages())
    turns.expect()
    turns.expect()
    assert not any(one.late for one in sweeps.ages())
    Sweep.objects.update(registered_at=timezone.now() - timedelta(days=2))
    assert all(one.late for one in sweeps.ages())
    assert all(one.age_seconds is None for one in sweeps.ages())


def test_a_turn_that_fails_says_so(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    from workers import turns

    def fail() -> int:
        raise RuntimeError("with words that may be secret")

    with pytest.raises(RuntimeError):
        turns.take("sweep", fail)
    row = Sweep.objects.get(name="sweep")
    assert (row.error, row.finished_at is None) == ("RuntimeError", False)
    assert next(one for one in sweeps.ages() if one.name == "sweep").state == "failed"


def test_all_is_ready(client: Client, owner: Tenant, broker: None) -> None:
    all_sweeps_ran()
    gateway_serves()
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")


@pytest.mark.parametrize("change", [{"draining": True}, {"seen_at": "2020-01-01T00:00:00Z"}, {"host_id": "another"}])
def test_a_host_whose_machines_no_gateway_answers_degrades(client: Client, owner: Tenant, broker: None, change: dict[str, Any]) -> None:
    all_sweeps_ran()
    gateway_serves()
    GatewayProcess.objects.update(**change)
    assert [client.get("/readyz").json()[part] for part in ("status", "gateway", "workers")] == ["degraded", False, True]


@pytest.mark.parametrize(("master", "shared"), [(MASTER, True), (b"another".ljust(32), False)])
def test_a_web_process_that_a_hosts_relay_would_refuse_says_so(
    client: Client, owner: Tenant, broker: None, settings: Any, master: bytes, shared: bool
) -> None:
    all_sweeps_ran()
    gateway_serves()
    marks = [proof.mark(MASTER, "ab" * 32)]
    HostRelay.objects.create(host_id=HOST, address="192.0.2.2", port=8791, fingerprint="ab" * 32, key_marks=marks)
    settings.KEEPSTATE_MASTER_KEY = master
    told = client.get("/readyz").json()
    assert (told["status"], told["master_key"]) == ("ready" if shared else "degraded", shared)


def test_a_scrape_tells_what_gateways_read_and_nothing_of_one_that_is_silent(client: Client, owner: Tenant) -> None:
    gateway_serves()
    found = scraped(client)
    told = [found[(f"keepstate_gateway_{name}", ())] for name in ("doors", "calls", "streams", "database_seconds")]
    assert (told, found[("keepstate_gateways", (("state", "serving"),))]) == ([3, 2, 1, 0.002], 1)
    caches["process"].clear()
    GatewayProcess.objects.update(seen_at="2020-01-01T00:00:00Z")
    found = scraped(client)
    assert (found[("keepstate_gateway_calls", ())], ("keepstate_gateway_database_seconds", ()) in found) == (0, False)


def test_a_late_sweep_and_a_silent_fleet_degrade_and_are_named(client: Client, owner: Tenant, broker: None) -> None:
    all_sweeps_ran()
    Sweep.objects.filter(name="sweep").update(finished_at=timezone.now() - timedelta(hours=1))
    Host.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
    answer = client.get("/readyz")
    told = answer.json()
    assert (answer.status_code, told["status"], told["workers"], told["late_sweeps"]) == (200, "degraded", False, ["sweep"])


def test_a_store_that_is_not_there_degrades(client: Client, owner: Tenant, broker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise OSError("not mounted")

    all_sweeps_ran()
    monkeypatch.setattr(health.STORE, "ask", gone)
    assert client.get("/readyz").json()["store"] is False


def test_without_a_broker_it_serves_on_and_says_so(client: Client, owner: Tenant, settings: Any) -> None:
    all_sweeps_ran()
    gateway_serves()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"], answer.json()["broker"]) == (200, "degraded", False)


def test_a_scrape_tells_sessions_operations_hosts_and_sweeps(client: Client, owner: Tenant) -> None:
    session_row(owner.account, SessionState.RUNNING)
    session_row(owner.account, SessionState.PARKED)
    all_sweeps_ran()
    found = scraped(client)
    assert found[("keepstate_sessions", (("state", "running"),))] == 1
    assert found[("keepstate_hosts", (("state", "alive"),))] == 1
    assert found[("keepstate_operation_leases_expired", ())] == 0
    assert found[("keepstate_sweep_late", (("sweep", "sweep"),))] == 0


def test_requests_are_counted_by_route_and_not_by_path(client: Client, owner: Tenant) -> None:
    client.get("/api/sessions/secret-looking-id")
    found = scraped(client)
    labels = [dict(labels) for name, labels in found if name == "keepstate_requests_total"]
    assert any(one["route"] == "session" for one in labels)
    assert not any("secret-looking" in str(one) for one in labels)


def test_metrics_are_for_this_machine_alone_unless_a_token_is_set(client: Client, owner: Tenant, settings: Any) -> None:
    assert client.get("/metrics", REMOTE_ADDR="192.0.2.7").status_code == 404
    settings.KEEPSTATE_METRICS_TOKEN = "t" * 32
    assert client.get("/metrics").status_code == 404
    assert client.get("/metrics", headers={"Authorization": "Bearer " + "t" * 32}, REMOTE_ADDR="192.0.2.7").status_code == 200


def test_a_proxy_on_the_same_machine_is_not_this_machine(client: Client, owner: Tenant, settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert client.get("/metrics").status_code == 404


def test_what_hangs_counts_as_away_after_a_moment_and_costs_one_thread(
    client: Client, owner: Tenant, broker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, asked = threading.Event(), []

    def hang() -> None:
        asked.append(1)
        goes_on.wait(20)

    monkeypatch.setattr(health, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(health.DATABASE, "ask", hang)
    told = [client.get("/readyz") for _ in range(3)]
    assert [(one.status_code, one.json()["database"]) for one in told] == [(503, False)] * 3
    assert asked == [1]
    goes_on.set()


def test_an_operation_that_has_just_been_placed_after_a_long_wait_has_not_been_unheard_for_all_of_it(client: Client, owner: Tenant) -> None:
    boot_asked(owner.account)
    Operation.objects.update(accepted_at=F("accepted_at") - timedelta(minutes=9))
    assert scraped(client)[("keepstate_operation_oldest_seconds", (("state", "queued"),))] < 60
