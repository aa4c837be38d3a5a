"""The account's deletion over the API: a plan, the name typed, a time of grace without any change, a receipt that outlives it."""

import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.db.models.functions import Now
from pytest_django.fixtures import Settings

from sessions_app.errors import AccountClosing
from sessions_app.models import Account, AccountDeletion, ServiceRecord, Session
from sessions_app.services import account_deletion, account_run, lifecycle, operation
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.states import OperationKind
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant, boot_asked, session_row, tenant
from tests.support.threads import at_once
from tests.support.waiting import until, waits_for_a_lock
from tests.support.worker import work_all

DELETION = "/api/v2/account/deletion"


def scheduled(api: Caller, owner: Tenant) -> dict[str, Any]:
    plan = api("POST", "/api/v2/account/deletion-plan", {}).json()["data"]
    made = api("POST", DELETION, {"plan_id": plan["id"], "confirm": owner.account.name})
    assert made.status_code == 201, made.json()
    found: dict[str, Any] = made.json()["data"]
    return found


def test_a_plan_tells_what_there_is_and_changes_nothing(api: Caller, owner: Tenant) -> None:
    session_row(owner.account)
    shown = api("POST", "/api/v2/account/deletion-plan", {}).json()["data"]["plan"]
    assert (shown["sessions"], shown["running_machines"], shown["tokens"], shown["grace_hours"]) == (1, 1, 1, 168)
    assert not AccountDeletion.objects.exists()
    assert api("POST", "/api/sessions", {"Image": "tiny"}).status_code == 202


@pytest.mark.parametrize(
    ("plan_id", "confirm", "code"), [(None, "another", "ks_confirmation_mismatch"), ("aplan_x", "owner", "ks_not_found")]
)
def test_nothing_is_scheduled_without_plan_and_name(api: Caller, owner: Tenant, plan_id: str | None, confirm: str, code: str) -> None:
    plan = api("POST", "/api/v2/account/deletion-plan", {}).json()["data"]
    refused = api("POST", DELETION, {"plan_id": plan_id or plan["id"], "confirm": confirm})
    assert error_of(refused)["code"] == code
    assert not AccountDeletion.objects.exists()


def test_while_it_is_scheduled_the_account_is_read_and_not_changed(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, saved=True)
    scheduled(api, owner)
    for method, path, body in [
        ("POST", "/api/sessions", {"Image": "tiny"}),
        ("POST", "/api/v2/sessions", {"name": "more"}),
        ("DELETE", f"/api/sessions/{session.id}", None),
        ("POST", f"/api/sessions/{session.id}/checkpoint", {}),
        ("POST", DELETION, {"plan_id": "aplan_x", "confirm": "owner"}),
    ]:
        refused = api(method, path, body)
        assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_account_closing"), path
    assert api("GET", f"/api/v2/sessions/{session.id}").status_code == 200
    assert api("GET", DELETION).json()["data"]["state"] == "scheduled"
    assert api("POST", "/api/tokens/revoke", {}).status_code == 200


def test_what_starts_work_asks_under_a_lock_whatever_the_request_had_seen(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, saved=True)
    scheduled(api, owner)
    with pytest.raises(AccountClosing):
        boot_asked(owner.account)
    with pytest.raises(AccountClosing):
        sessions.resume(session, checkpoint_id=None, asked=Asked())
    assert Session.objects.count() == 1
    assert lifecycle.ask_save(operation.lock(session), stop=False, reason="interval").kind == OperationKind.CHECKPOINT


def test_a_cancelled_deletion_leaves_the_account_as_it_was(api: Caller, owner: Tenant) -> None:
    scheduled(api, owner)
    assert api("DELETE", DELETION).json()["data"]["state"] == "cancelled"
    assert api("POST", "/api/sessions", {"Image": "tiny"}).status_code == 202
    assert (api("DELETE", DELETION).status_code, api("GET", DELETION).status_code) == (404, 404)
    assert account_run.run_due() == 0
    types = list(ServiceRecord.objects.filter(type__startswith="account.").order_by("id").values_list("type", flat=True))
    assert types == ["account.deletion_scheduled", "account.deletion_cancelled"]


def test_a_deletion_that_is_not_due_does_not_begin_and_one_that_has_begun_is_not_cancelled(api: Caller, owner: Tenant) -> None:
    deletion = scheduled(api, owner)
    assert account_run.run_due() == 0
    AccountDeletion.objects.update(state="running")
    refused = api("DELETE", DELETION)
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_account_deletion_begun")
    assert AccountDeletion.objects.get(id=deletion["id"]).state == "running"


@pytest.mark.django_db(transaction=True)
def test_a_session_that_is_being_made_is_waited_for_and_a_later_one_is_refused(
    owner: Tenant, api: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has looked whether the account is closing and has not committed yet when the deletion is scheduled."""
    plan_id = account_deletion.make_plan(owner.account).id
    looked, asked, outcomes = threading.Event(), threading.Event(), list[str]()
    begin = sessions.begin

    def begin_slowly(*words: Any) -> None:
        begin(*words)
        looked.set()
        asked.wait()
        until(waits_for_a_lock, 30, "the scheduling waits for the session's commit")

    def start_or_schedule(number: int) -> None:
        if number:
            looked.wait()
            asked.set()
            account_deletion.schedule(owner.account, plan_id=plan_id, confirm=owner.account.name, actor="test")
            outcomes.append("scheduled")
        else:
            boot_asked(owner.account)
            outcomes.append("started")

    with monkeypatch.context() as patch:
        patch.setattr(sessions, "begin", begin_slowly)
        at_once(2, start_or_schedule)
    assert sorted(outcomes) == ["scheduled", "started"]
    with pytest.raises(AccountClosing):
        boot_asked(owner.account)
    assert Session.objects.count() == 1


@pytest.fixture
def gone(api: Caller, owner: Tenant, settings: Settings, tmp_path: Any, transactional_db: None) -> dict[str, Any]:
    """An account that was deleted, and what scheduling its deletion had answered."""
    settings.KEEPSTATE_ACCOUNT_GRACE_HOURS = 0
    session_row(owner.account, host_id="")
    other = tenant("other")
    session_row(other.account)
    deletion = scheduled(api, owner)
    assert account_run.run_due() == 0, "its session is still being deleted"
    work_all()
    AccountDeletion.objects.update(due_at=Now() - timedelta(seconds=1))
    assert account_run.run_due() == 1, AccountDeletion.objects.get().trouble
    return deletion


def test_the_account_is_gone_with_its_tokens_and_another_is_untouched(gone: dict[str, Any], api: Caller, owner: Tenant) -> None:
    assert api("GET", "/api/whoami").status_code == 401
    assert not Account.objects.filter(id=owner.account.id).exists()
    other = Account.objects.get(name="other")
    assert (other.sessions.count(), other.tokens.count()) == (1, 1)
    assert AccountDeletion.objects.get().state == "done"
    assert account_run.run_due() == 0


def test_its_receipt_is_read_with_the_secret_alone_and_verifies(gone: dict[str, Any], tmp_path: Any) -> None:
    nobody = Caller(None)
    path = f"/api/v2/receipts/{gone['id']}"
    for secret in ("", "wrong", gone["id"]):
        assert nobody("GET", path, X_KS_Receipt_Secret=secret).status_code == 404
    answer = nobody("GET", path, X_KS_Receipt_Secret=gone["receipt_secret"]).json()["data"]
    assert answer["deletion"]["state"] == "done"
    assert answer["receipt"]["erased"]["sessions"] == 1
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(answer["receipt"]))
    call_command("verify_receipt", str(file))
    file.write_text(json.dumps({**answer["receipt"], "erased": {}}))
    with pytest.raises(CommandError, match="Not genuine"):
        call_command("verify_receipt", str(file))


def test_the_secret_is_told_once_and_kept_nowhere(api: Caller, owner: Tenant) -> None:
    plan = api("POST", "/api/v2/account/deletion-plan", {}).json()["data"]
    body = {"plan_id": plan["id"], "confirm": owner.account.name}
    first = api("POST", DELETION, body, key="ksop_" + "a" * 32).json()["data"]
    with connection.cursor() as cursor:
        for table in ("sessions_app_accountdeletion", "sessions_app_recordedrequest"):
            cursor.execute(f"SELECT count(*) FROM {table} AS row WHERE row::text LIKE %s", [f"%{first['receipt_secret']}%"])
            assert cursor.fetchone()[0] == 0
