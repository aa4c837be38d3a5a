"""Budgets over the API and in the beat's turn: exact, warned once, saved and parked and never killed."""

from typing import Any

import pytest

from gateway_app.models import AccountBudget, SessionBudget
from gateway_app.services import budget_watch
from sessions_app.models import Operation, ServiceRecord, Session, WebhookDelivery
from sessions_app.services.webhooks import endpoint
from sessions_app.states import OperationState, SessionState
from tests.integration.gateway.kept import spent
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant, session_row
from workers.operations.parking import park_reason

ACCOUNT = "/api/v2/account/budget"


def put(api: Caller, session: Session, revision: int = 1, **wanted: Any) -> Any:
    return api("PUT", f"/api/v2/sessions/{session.id}/budget", {"tokens": 1000, "usd": None, "expected_revision": revision, **wanted})


def events(session: Session) -> list[str]:
    return [one for one in session.events.order_by("number").values_list("type", flat=True) if "budget_" in one]


def test_money_is_exact_to_the_micro_dollar(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    told = put(api, session, usd="0.000001").json()["data"]
    assert (told["limit_microusd"], told["limit_usd"], told["revision"]) == (1, "0.000001", 2)
    assert put(api, session, 2, usd="12.5").json()["data"]["limit_usd"] == "12.50"
    assert put(api, session, 1, usd="13").status_code == 409
    for wrong in ("0", "1e3", "-1", "0.0000001", "1,5", "", " 1", "٣", 5):
        refused = put(api, session, 3, usd=wrong)
        assert (refused.status_code, error_of(refused)["code"]) == (400, "ks_invalid"), wrong
    assert put(api, session, 3, tokens=0).status_code == 400
    assert SessionBudget.objects.get().microusd == 12_500_000


def test_the_accounts_budget_has_a_revision_of_its_own(api: Caller, owner: Tenant) -> None:
    assert api("GET", ACCOUNT).json()["data"]["revision"] == 0
    wanted = {"tokens": 10, "usd": "100", "expected_revision": 0}
    told = api("PUT", ACCOUNT, wanted).json()["data"]
    assert (told["limit_microusd"], told["revision"], told["state"]) == (100_000_000, 1, "within")
    assert api("PUT", ACCOUNT, wanted).json()["data"]["revision"] == 1  # it is so already
    assert error_of(api("PUT", ACCOUNT, {**wanted, "tokens": None}))["code"] == "ks_revision_conflict"


def test_at_four_fifths_it_warns_once_and_parks_nothing(owner: Tenant) -> None:
    session = session_row(owner.account)
    spent(session, spent_tokens=799)
    assert budget_watch.run_due() == 0
    spent(session, spent_tokens=800)
    assert [budget_watch.run_due(), budget_watch.run_due()] == [1, 0]
    assert events(session) == ["session.budget_warning"]
    assert not Operation.objects.exists()


@pytest.mark.parametrize("what", ["session_tokens", "session_microusd", "account_tokens", "account_microusd"])
def test_over_any_budget_the_session_is_saved_and_parked_by_an_ordinary_save(owner: Tenant, what: str) -> None:
    session = session_row(owner.account)
    whose, _, unit = what.partition("_")
    spent(session, **{f"spent_{unit}": 1000})
    if whose == "account":
        AccountBudget.objects.create(account=owner.account, **{unit: 1000, f"spent_{unit}": 1000})
        Session.objects.update(budget_tokens=10**6)
    elif unit == "microusd":
        SessionBudget.objects.update(microusd=1000)
    assert [budget_watch.run_due(), budget_watch.run_due()] == [1, 0]
    asked = Operation.objects.get()
    assert (asked.kind, asked.parameters["stop"], park_reason(asked)) == ("checkpoint", True, "funds_interlock")
    assert events(session) == ["session.budget_warning", "session.budget_exhausted"]
    assert session.events.filter(type="session.budget_exhausted").get().payload["what"] == what


def test_its_owner_hears_of_both_by_webhook_and_the_service_record_has_them(owner: Tenant) -> None:
    endpoint.create(owner.account, url="https://hook.example.com/", types=["session.budget_warning", "session.budget_exhausted"])
    session = session_row(owner.account)
    spent(session, spent_tokens=800)
    budget_watch.run_due()
    spent(session, spent_tokens=1000)
    budget_watch.run_due()
    told = ["session.budget_warning", "session.budget_exhausted"]
    assert list(WebhookDelivery.objects.order_by("created_at").values_list("event_type", flat=True)) == told
    lines = ServiceRecord.objects.filter(session_id=session.id, type__startswith="session.budget_").order_by("id")
    assert [(line.type, line.facts["spent"], line.facts["limit"]) for line in lines] == list(
        zip(told, (800, 1000), (1000, 1000), strict=True)
    )


def test_a_session_that_never_called_a_model_is_left_alone_however_its_account_stands(owner: Tenant) -> None:
    session_row(owner.account)
    AccountBudget.objects.create(account=owner.account, tokens=1, spent_tokens=5)
    assert budget_watch.run_due() == 0


def test_who_resumes_without_raising_the_limit_keeps_the_machine_and_a_raised_one_wakes_nothing(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    spent(session, spent_tokens=1000)
    budget_watch.run_due()
    Operation.objects.update(state=OperationState.SUCCEEDED)
    Session.objects.update(epoch=2)
    SessionBudget.objects.update(exhausted_at="2020-01-01T00:00:00Z")
    assert budget_watch.run_due() == 0
    Session.objects.update(runtime_state=SessionState.PARKED)
    session.refresh_from_db()
    assert put(api, session, session.revision, tokens=5000).json()["data"]["state"] == "within"
    assert (Operation.objects.count(), Session.objects.get().runtime_state) == (1, "parked")
    row = SessionBudget.objects.get()
    assert (row.warned_at, row.exhausted_at) == (None, None)


def test_a_parking_that_did_not_come_about_is_asked_for_again_later(owner: Tenant) -> None:
    session = session_row(owner.account)
    spent(session, spent_tokens=1000)
    budget_watch.run_due()
    Operation.objects.update(state=OperationState.FAILED)
    assert budget_watch.run_due() == 0
    SessionBudget.objects.update(exhausted_at="2020-01-01T00:00:00Z")
    assert (budget_watch.run_due(), Operation.objects.count()) == (1, 2)
    assert session.runtime_state == "running"
