"""The service record: a line for every step and every end, never changed, kept for its own time, and nothing of a customer's in it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now

from sessions_app.errors import Internal
from sessions_app.models import ServiceRecord
from sessions_app.services import cancel, lease, record
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from sessions_app.states import RecordKind, SessionState
from tests.support.fleet import IMAGE, Tenant, boot_asked, session_row

MARK = "planted-mark"


def types() -> list[str]:
    return list(ServiceRecord.objects.order_by("id").values_list("type", flat=True))


def test_a_session_s_steps_and_its_operations_ends_are_told(owner: Tenant) -> None:
    asked = boot_asked(owner.account)
    held = lease.claim(asked.id, "h-test")
    assert held is not None
    with transaction.atomic():
        sessions.move(asked.session, [SessionState.PROVISIONING], SessionState.RUNNING, source="operation/x", type_="session.running")
        lease.succeed(held, {"id": "x"}, 201)
    assert types() == ["session.created", "session.running", "operation.succeeded"]
    line = ServiceRecord.objects.latest("id")
    assert (line.account_id, line.session_id, line.kind) == (owner.account.id, asked.session_id, "lifecycle")
    assert (line.facts["operation_id"], line.facts["kind"], line.facts["http_status"]) == (asked.id, "boot", 201)


def test_a_cancelled_operation_is_told_with_its_session_s_failure(owner: Tenant) -> None:
    cancel.cancel(boot_asked(owner.account))
    assert sorted(types()[1:]) == ["operation.cancelled", "session.failed"]
    assert ServiceRecord.objects.get(type="operation.cancelled").facts["code"] == "ks_cancelled"


def test_nothing_of_a_customer_s_is_in_it(owner: Tenant) -> None:
    boot = sessions.create(owner.account, Wanted(image=IMAGE, name=MARK), Asked())
    running = session_row(owner.account, saved=True, name=MARK)
    command = sessions.execute(running, argv=["echo", MARK], timeout_seconds=5, asked=Asked(path=f"/{MARK}"))
    save = sessions.checkpoint(running, stop=False, reason=MARK, asked=Asked(idempotency_key=f"{MARK}-key"))
    for operation in (boot, command):
        held = lease.claim(operation.id, "h-test")
        assert held is not None
        lease.fail(held, Internal(f"It failed over {MARK}.", facts={"detail": MARK}))
    cancel.cancel(save)
    with transaction.atomic():
        sessions.move(running, [SessionState.RUNNING], SessionState.FAILED, source="host", type_="session.failed", payload={"reason": MARK})
    told = [str(row) for row in ServiceRecord.objects.values()]
    assert len(told) == 5
    assert not [row for row in told if MARK in row]


def test_a_line_cannot_be_changed_or_removed(owner: Tenant) -> None:
    line = record.write(RecordKind.OPERATOR, "test", account_id=owner.account.id)
    changes: list[Callable[[], object]] = [
        lambda: ServiceRecord.objects.update(actor="another"),
        lambda: ServiceRecord.objects.filter(id=line.id).delete(),
        lambda: connection.cursor().execute("TRUNCATE sessions_app_servicerecord"),
    ]
    for change in changes:
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            change()
    assert ServiceRecord.objects.get().actor == ""


def test_only_the_sweep_removes_lines_and_only_old_ones(owner: Tenant) -> None:
    for age in (399, 401, 500):
        ServiceRecord.objects.create(kind="usage", type="old", account_id=owner.account.id, recorded_at=Now() - timedelta(days=age))
    assert record.sweep() == 2
    assert ServiceRecord.objects.count() == 1
    with pytest.raises(IntegrityError), transaction.atomic():
        ServiceRecord.objects.all().delete()


def test_the_record_is_read_in_pages_of_one_s_own_account(owner: Tenant, stranger: Tenant) -> None:
    for number in range(5):
        record.write(RecordKind.USAGE, f"line.{number}", account_id=owner.account.id)
    record.write(RecordKind.OPERATOR, "theirs", account_id=stranger.account.id)
    first = record.page(owner.account, limit=3)
    second = record.page(owner.account, limit=3, before=int(first.next_cursor))
    assert [line.type for line in [*first.items, *second.items]] == [f"line.{number}" for number in (4, 3, 2, 1, 0)]
    assert second.next_cursor == ""
    assert record.page(owner.account, limit=3, kind=RecordKind.OPERATOR).items == []
