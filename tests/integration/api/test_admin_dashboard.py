"""The dashboard tells what is wrong, costs a bounded number of questions, and a database that is slow costs its panel alone."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import Permission, User
from django.core.cache import cache
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from checkpoints_app.models import Sweep
from checkpoints_app.states import CheckpointState
from keepstate_site.console_pages.figures import clock, fleet, operations
from sessions_app.models import Account, AccountQuota, AccountUsage, Operation, Sample, Session
from sessions_app.services import sample
from sessions_app.states import OperationKind, OperationState, SessionState
from tests.support.fleet import Tenant, checkpoint_row, session_row
from workers.models import Host

MOST_QUERIES = 70


@pytest.fixture(autouse=True)
def nothing_cached() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def panel(client: Client, key: str, **query: str) -> str:
    cache.clear()
    answer = client.get(reverse("admin:index"), query)
    assert answer.status_code == 200
    return next(str(one["content"]) for one in answer.context["panels"] if one["panel"].key == key)


def tile(client: Client, label: str) -> tuple[str, str, str]:
    """Its value, its note and its look."""
    parsed = ElementTree.fromstring(panel(client, "now"))
    for one in parsed:
        texts = [part.text or "" for part in one]
        if texts[0] == label:
            return texts[1], texts[2], one.attrib["class"].rpartition("-")[2]
    raise AssertionError(label)


def operation(session: Session, kind: Any = OperationKind.CHECKPOINT, **fields: Any) -> Operation:
    ended = {"state": OperationState.SUCCEEDED, "finished_at": Now(), "queue": "host.h-test", **fields}
    return Operation.objects.create(account=session.account, session=session, kind=kind, **ended)


def test_an_installation_without_a_row_says_so_in_sentences(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:index")).content.decode()
    assert "No host has registered." in page
    assert "No sample was taken in this time." in page
    assert tile(admin_client, "Hosts that take work") == ("0 of 0", "no host has registered", "wrong")
    assert tile(admin_client, "Stuck operations") == ("0", "none", "well")


ORPHANED = {"state": "running", "lease_expires_at": Now() - timedelta(seconds=1), "lease_owner": "w1", "attempt": 2}
SLOW = {"state": "running", "lease_expires_at": Now() + timedelta(minutes=1), "started_at": Now() - timedelta(hours=2), "lease_owner": "w1"}
STUCK = [
    ({"state": "queued", "due_at": Now() - timedelta(minutes=2)}, "no worker reads host.h-test"),
    (ORPHANED, "w1 was lost (attempt 2 of 3)"),
    (SLOW, "runs longer than a checkpoint should"),
]


@pytest.mark.parametrize(("fields", "why"), STUCK)
def test_an_operation_is_stuck_when_nobody_works_on_it_or_it_takes_too_long(
    owner: Tenant, admin_client: Client, fields: dict[str, Any], why: str
) -> None:
    stuck = operation(session_row(owner.account), finished_at=None, **fields)
    shown = panel(admin_client, "stuck")
    assert stuck.id in shown
    assert why in shown
    assert tile(admin_client, "Stuck operations")[2] == "wrong"


def test_an_operation_that_waits_its_turn_or_is_worked_on_is_not_stuck(owner: Tenant) -> None:
    operation(session_row(owner.account), state="queued", due_at=Now(), finished_at=None)
    leased = {"lease_expires_at": Now() + timedelta(minutes=1), "started_at": Now(), "finished_at": None}
    operation(session_row(owner.account), state="running", **leased)
    assert not operations.stuck().exists()


def test_a_failure_is_told_by_our_words_and_leads_to_its_page(owner: Tenant, admin_client: Client) -> None:
    failed = operation(session_row(owner.account), state="failed", error={"code": "ks_save_failed", "message": "The disk is full."})
    shown = panel(admin_client, "failed")
    assert "ks_save_failed: The disk is full." in shown
    assert f"/admin/sessions_app/operation/{failed.id.replace('_', '_5F')}/change/" in shown
    assert tile(admin_client, "Failed operations") == ("1", "in 24 hours", "doubt")


def test_resume_times_are_the_medians_and_tails_of_those_that_succeeded(owner: Tenant, admin_client: Client) -> None:
    session, moment = session_row(owner.account), clock.now()
    for seconds in (1, 2, 3):
        done = operation(session, OperationKind.RESUME, accepted_at=moment)
        Operation.objects.filter(id=done.id).update(finished_at=F("accepted_at") + timedelta(seconds=seconds))
    operation(session, OperationKind.RESUME, state="failed", accepted_at=Now() - timedelta(seconds=3000))
    shown = panel(admin_client, "resumes", span="7d")
    assert "p50: last 2 s" in shown
    assert "p95: last 2.9 s" in shown


def test_saves_and_samples_fall_into_their_slots(owner: Tenant, admin_client: Client) -> None:
    """All of the moment that the page is of, which stands still within a transaction: a slot that ends meanwhile divides nothing."""
    session, moment = session_row(owner.account), clock.now()
    operation(session, accepted_at=moment)
    operation(session, accepted_at=moment - timedelta(hours=1))
    operation(session, state="failed", accepted_at=moment)
    assert "saved: last 1, greatest 1; failed: last 1" in panel(admin_client, "saves")
    AccountUsage.objects.create(account=owner.account, stored_bytes=5 << 30)
    assert sample.take() >= 2
    Sample.objects.update(at=moment)
    Sample.objects.create(gauge=sample.RUNNING_MACHINES, at=Now() - timedelta(hours=30), value=9)
    assert "last 1, greatest 1" in panel(admin_client, "machines")
    assert "greatest 9" in panel(admin_client, "machines", span="7d")
    assert "last 5 GiB" in panel(admin_client, "stored")


def test_samples_older_than_what_is_kept_are_forgotten(db: None) -> None:
    Sample.objects.create(gauge="x", at=Now() - sample.KEPT - timedelta(days=1), value=1)
    sample.take()
    assert not Sample.objects.filter(gauge="x").exists()


def lines(shown: str) -> list[list[ElementTree.Element]]:
    """The cells of a table's rows, without its head."""
    return [list(row) for row in ElementTree.fromstring(shown).iter("tr") if row.find("td") is not None]


def words(cell: ElementTree.Element) -> str:
    return "".join(cell.itertext())


def test_hosts_are_shown_with_their_room_and_a_silent_one_first(owner: Tenant, admin_client: Client) -> None:
    session_row(owner.account)
    Host.objects.create(id="h-silent", memory_bytes=1 << 30, cpus=1, boot_id="b", heartbeat_at=Now() - timedelta(minutes=5))
    silent, alive = [[words(cell) for cell in row] for row in lines(panel(admin_client, "hosts"))]
    assert silent[:2] == ["h-silent", "silent"]
    assert alive[:2] + alive[3:5] == ["h-test", "alive", "1", "256 MiB"]
    assert tile(admin_client, "Hosts that take work") == ("1 of 2", "1 silent", "doubt")


def test_a_sweep_is_late_by_its_own_schedule(owner: Tenant, admin_client: Client) -> None:
    for name, minutes in (("housekeeping", 1), ("store_upkeep", 6), ("webhooks", 60), ("store_orphans", 60)):
        ended = Now() - timedelta(minutes=minutes)
        Sweep.objects.create(name=name, started_at=ended, finished_at=ended)
    looks = {words(row[0]): row[1].attrib.get("class") for row in lines(panel(admin_client, "sweeps"))}
    assert looks["housekeeping"] == looks["store_orphans"] == "ks-well"
    assert looks["store_upkeep"] == looks["samples"] == "ks-doubt"
    assert looks["webhooks"] == "ks-wrong"
    assert tile(admin_client, "Recurring work late")[2] == "wrong"


def test_accounts_near_their_quota_are_shown_the_fullest_first(owner: Tenant, admin_client: Client) -> None:
    full, roomy = Account.objects.create(name="full"), Account.objects.create(name="roomy")
    for account, limit in ((owner.account, 10), (full, 9), (roomy, None)):
        AccountUsage.objects.create(account=account, stored_bytes=9)
        AccountQuota.objects.create(account=account, stored_bytes=limit, running_machines=5)
    for _ in range(4):
        session_row(owner.account)
    rows = [[words(cell) for cell in row] for row in lines(panel(admin_client, "quotas"))]
    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("full", "stored bytes", "100%"),
        ("owner", "stored bytes", "90%"),
        ("owner", "running machines", "80%"),
    ]


def test_corrupt_checkpoints_and_sessions_to_be_recovered_are_alarms(owner: Tenant, admin_client: Client) -> None:
    checkpoint_row(session_row(owner.account, SessionState.RECOVERY_REQUIRED), CheckpointState.CORRUPT)
    assert tile(admin_client, "Corrupt checkpoints") == ("1", "they are refused", "wrong")
    assert tile(admin_client, "Sessions that failed") == ("1", "1 need recovery", "wrong")


def test_a_database_that_is_slow_costs_its_panel_and_is_asked_again_at_the_next_look(
    owner: Tenant, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow() -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 1")
            cursor.execute("SELECT pg_sleep(10)")

    with monkeypatch.context() as patch:
        patch.setattr(fleet, "hosts", slow)
        page = admin_client.get(reverse("admin:index")).content.decode()
    assert page.count("could not be read within 3 seconds") == 2
    assert "Nothing is scheduled" not in page
    assert "None failed." in page
    assert "h-test" in panel(admin_client, "hosts")


def test_the_page_costs_as_many_questions_for_few_rows_as_for_many_and_few_while_it_is_fresh(owner: Tenant, admin_client: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            admin_client.get(reverse("admin:index"))
        return len(seen)

    session_row(owner.account)
    few = queries()
    assert queries() < 6
    for _ in range(20):
        session = session_row(owner.account)
        operation(session, state="failed")
        operation(session, state="queued", due_at=Now() - timedelta(hours=1), finished_at=None)
        checkpoint_row(session)
    cache.clear()
    assert queries() == few <= MOST_QUERIES


def test_a_panel_appears_for_who_may_see_its_rows(owner: Tenant, client: Client) -> None:
    viewer = User.objects.create_user("viewer", password="a long pass phrase", is_staff=True)
    client.force_login(viewer)
    assert "You may see none of what stands here." in client.get(reverse("admin:index")).content.decode()
    viewer.user_permissions.set(Permission.objects.filter(codename="view_host"))
    keys = [one["panel"].key for one in client.get(reverse("admin:index")).context["panels"]]
    assert keys == ["hosts"]
