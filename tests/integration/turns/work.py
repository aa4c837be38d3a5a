"""Work for every turn of the beat, of one account; and all that the turns have made of it, as counts."""

from collections import Counter
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint, Manifest, OrphanObject, Pack
from checkpoints_app.services import erase
from gateway_app.models import Call, UsageEntry
from gateway_app.services import open_calls
from sessions_app.models import (
    Account,
    AccountDeletion,
    IdlePolicy,
    Operation,
    Plan,
    Sample,
    SavePolicy,
    ServiceRecord,
    SessionEvent,
    SessionUsage,
    WebhookDelivery,
)
from sessions_app.services import event, idle_policy, plan, record, save_policy
from sessions_app.services import lease as leases
from sessions_app.services import retention as policies
from sessions_app.services import session as sessions
from sessions_app.services.retention import Rules
from sessions_app.services.webhooks import endpoint
from sessions_app.states import PlanKind, RecordKind, SessionState
from tests.integration.gateway.kept import call_row, spent
from tests.store_kit import content
from tests.support.fleet import Tenant, boot_asked, session_row, tenant
from tests.support.kept import without_rules
from tests.support.shelf import UNITS, Shelf

LONG_AGO = timedelta(days=500)
HOUR = timedelta(hours=1)


class Work:
    """Of two accounts, the second of which is to be deleted."""

    def __init__(self, name: str, hook: str):
        self.owner, self.leaving = tenant(name), tenant(f"{name} leaves")
        self.shelf = Shelf(self.owner.account)
        with transaction.atomic():
            endpoint.create(self.owner.account, url=hook, types=[])
        for make in (_policies, _calls, _lost_work, _kept, _points, _unfinished_erasure, _orphans):
            make(self)
        _telling(self.owner)
        AccountDeletion.objects.create(account_id=self.leaving.account.id, secret_digest="0", actor="test", due_at=Now())
        Account.objects.filter(id=self.leaving.account.id).update(closing_at=Now())

    def made(self) -> Counter[Any]:
        """What is there of both accounts now, and of what no account has."""
        ids = [self.owner.account.id, self.leaving.account.id]
        of_sessions = {"session__account_id__in": ids}
        found: Counter[Any] = Counter()
        _count(found, ServiceRecord.objects.filter(account_id__in=ids), "type")
        _count(found, SessionEvent.objects.filter(**of_sessions), "type")
        _count(found, Operation.objects.filter(account_id__in=ids), "kind", "state")
        _count(found, WebhookDelivery.objects.filter(endpoint__account_id__in=ids), "state", "attempt")
        _count(found, Checkpoint.objects.filter(**of_sessions), "state")
        for kept in (Pack, Manifest):
            _count(found, kept.objects.filter(account_id__in=ids), "state")
        _count(found, Call.objects.filter(account_id__in=ids), "state")
        _count(found, UsageEntry.objects.filter(account_id__in=ids), "billed")
        _count(found, AccountDeletion.objects.filter(account_id__in=ids), "state")
        _count(found, Plan.objects.filter(account_id__in=ids), "kind")
        _count(found, Sample.objects.all(), "gauge")
        _count(found, OrphanObject.objects.filter(key__contains=self.owner.account.id), "quarantined_at")
        return found


def _count(found: Counter[Any], rows: QuerySet[Any], *fields: str) -> None:
    found.update((rows.model.__name__, *one) for one in rows.values_list(*fields))


def _policies(work: Work) -> None:
    """Two saves that are due on a host that makes one at a time, an idle session to warn and one to park, a budget that is spent."""
    host = f"h-{work.owner.account.name}"
    due, too, warned, idle, poor = (session_row(work.owner.account, host_id=host) for _ in range(5))
    for session in (due, too):
        save_policy.change(session, enabled=True, interval_minutes=10, expected_revision=session.revision)
    SavePolicy.objects.filter(session__in=[due, too]).update(due_at=Now())
    for session in (warned, idle):
        idle_policy.change(session, enabled=True, idle_minutes=10, warning_seconds=60, expected_revision=session.revision)
    IdlePolicy.objects.filter(session__in=[warned, idle]).update(active_at=Now() - HOUR, look_at=Now())
    IdlePolicy.objects.filter(session=warned).update(warned_at=Now() - timedelta(minutes=2))
    spent(poor, spent_tokens=poor.budget_tokens)


def _calls(work: Work) -> None:
    """Two whose gateway is silent."""
    session = session_row(work.owner.account, SessionState.PARKED)
    for started in (1, 2):
        call_row(session, started, pump="gone", pump_seen_at=Now() - 2 * open_calls.SILENT)


def _lost_work(work: Work) -> None:
    """A boot whose worker was lost too often."""
    operation = boot_asked(work.owner.account)
    Operation.objects.filter(id=operation.id).update(max_attempts=1)
    assert leases.claim(operation.id, "lost") is not None
    Operation.objects.filter(id=operation.id).update(lease_expires_at=Now() - HOUR, host_id="")


def _kept(work: Work) -> None:
    """What has been kept long enough: a plan, a line of the service record."""
    made = plan.make(work.owner.account, PlanKind.FORK, session=None, content={}, basis={})
    Plan.objects.filter(id=made.id).update(expires_at=Now() - LONG_AGO)
    with transaction.atomic():
        line = record.write(RecordKind.LIFECYCLE, "session.told_long_ago", account_id=work.owner.account.id)
    with without_rules():
        ServiceRecord.objects.filter(id=line.id).update(recorded_at=Now() - LONG_AGO)


def _points(work: Work) -> None:
    """A session of three points, of which its policy keeps one; and hours of a machine that nobody has told yet."""
    session, image, parent = work.shelf.session(), content(UNITS, 1), None
    for number in range(3):
        image = image.copy()
        image[number * 4 : number * 4 + 2] = content(2, 100 + number)
        parent = work.shelf.save(session, image, parent=parent)
    policies.change(work.owner.account, session, Rules(keep_last=1), expected_revision=0, consent=lambda *_: None)
    awake = session_row(work.owner.account, SessionState.PROVISIONING)
    with transaction.atomic():
        sessions.move(awake, [SessionState.PROVISIONING], SessionState.RUNNING, source="test", type_="session.running")
    SessionUsage.objects.filter(session=awake).update(awake_since=F("awake_since") - HOUR, told_at=None)


def _unfinished_erasure(work: Work) -> None:
    """One that died once its edges were dropped."""

    def die(name: str) -> None:
        if name == "marked":
            raise InterruptedError

    row = work.shelf.save(work.shelf.session(), content(UNITS, 7))
    try:
        erase.erase_checkpoint(row, step=die)
    except InterruptedError:
        pass


def _orphans(work: Work) -> None:
    """Objects of a save that died before its publication, seen two days ago."""
    work.shelf.store(work.shelf.begin(work.shelf.session(), None), content(UNITS, 5))


def _telling(owner: Tenant) -> None:
    with transaction.atomic():
        event.append(session_row(owner.account).id, "session.parked", {}, source="test")
