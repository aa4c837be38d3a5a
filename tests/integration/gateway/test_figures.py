"""Meter, usage, calls, the service record: known figures as they are, unknown ones null, replayed ones apart."""

import json

from django.db.models.functions import Now

from gateway_app.models import AccountBudget, Call, CallPiece, SessionBudget, Steer, UsageEntry, WindowEntry
from gateway_app.services import erasure, open_calls
from gateway_app.states import CallState, Served
from sessions_app.models import IdlePolicy, Operation, ServiceRecord, SessionUsage
from sessions_app.services import account_export, idle_policy, roll_up
from tests.integration.gateway.kept import SECRET, billed, call_row, key_of, spent
from tests.support.api import Caller, caller
from tests.support.fleet import Tenant, session_row

LONG_AGO = "2020-01-01T00:00:00Z"


def test_the_meter_counts_what_was_billed_and_tells_the_rest_beside_it(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    spent(session, spent_tokens=70, billed_calls=3, unknown_calls=1, replayed_calls=2, replayed_tokens=31_486)
    assert api("GET", f"/api/sessions/{session.short_id}/meter").json() == {
        "session": session.id, "spent": 70, "budget": 1000, "billed_calls": 3, "unknown_calls": 1, "replayed_calls": 2,
        "replayed_tokens": 31_486, "key_sources": [],
    }  # fmt: skip
    told = api("GET", f"/api/v2/sessions/{session.id}/usage").json()["data"]["entries"][0]
    assert (told["kind"], told["tokens"], told["standing"]) == ("model", 70, "estimated")


def test_usage_has_a_row_for_each_model_billed_and_replayed_apart(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    first = call_row(session, 1, 2)
    billed(first)
    billed(first, served=Served.REPLAYED, microusd=None)
    billed(call_row(session, 3, 4, model="unpriced"), microusd=None)
    billed(call_row(session, 5, 6, model="cut", state=CallState.CUT), tokens=None, microusd=None)
    entries = api("GET", f"/api/v2/sessions/{session.id}/usage").json()["data"]["entries"]
    told = [(one["model"], one["billed"], one["tokens"], one["microusd"], one["standing"]) for one in entries if one["kind"] == "model"]
    assert told == [
        ("cut", True, None, None, "unavailable"),
        ("fake-model", True, 10, 30, "actual"),
        ("fake-model", False, 10, 0, "actual"),
        ("unpriced", True, 10, None, "actual"),
    ]


def test_calls_are_listed_newest_first_in_pages_without_a_word_of_them(api: Caller, owner: Tenant, stranger: Tenant) -> None:
    session = session_row(owner.account)
    for tick in (1, 3, 5):
        billed(call_row(session, tick, tick + 1))
    path = f"/api/v2/sessions/{session.id}/calls"
    first = api("GET", f"{path}?limit=2").json()["data"]
    second = api("GET", f"{path}?limit=2&cursor={first['next_cursor']}").json()["data"]
    assert [row["id"] for row in [*first["items"], *second["items"]]] == list(
        Call.objects.order_by("-started").values_list("id", flat=True)
    )
    assert first["items"][0]["microusd"] == 30
    assert "words of the customer" not in str(first)
    assert caller(stranger)("GET", path).status_code == 404


def test_a_call_whose_gateway_died_ends_as_unknown_and_so_does_its_bill(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    dead = call_row(session, 1, pump="gone", pump_seen_at=LONG_AGO)
    alive = call_row(session, 2, pump="here", pump_seen_at=Now())
    assert [open_calls.end_silent(), open_calls.end_silent()] == [1, 0]
    dead.refresh_from_db()
    assert (dead.state, dead.pump, dead.ended is not None, dead.ended_at is not None) == ("unknown", "", True, True)
    assert Call.objects.get(id=alive.id).state == "open"
    line = UsageEntry.objects.get()
    assert (line.billed, line.input_tokens, line.microusd) == (True, None, None)
    for row in (SessionBudget.objects.get(), AccountBudget.objects.get()):
        assert (row.billed_calls, row.unknown_calls, row.unpriced_calls, row.spent_tokens) == (1, 1, 1, 0)
    assert api("GET", "/api/v2/account/usage").json()["data"]["model"]["standing"] == "estimated"


def test_the_service_record_is_told_tokens_and_money_once(owner: Tenant) -> None:
    session = session_row(owner.account)
    SessionUsage.objects.create(session=session)
    spent(session, spent_tokens=70, spent_microusd=210)
    roll_up.tell(session.id)
    roll_up.tell(session.id)
    spent(session, spent_tokens=80, unknown_calls=1, unpriced_calls=1)
    roll_up.tell(session.id)
    lines = ServiceRecord.objects.filter(type="usage.awake").order_by("id").values_list("facts", flat=True)
    told = [(one["tokens"], one["tokens_standing"], one["microusd"], one["awake_ms"]) for one in lines]
    assert told == [(70, "actual", 210, 0), (10, "estimated", None, 0)]


def test_a_sessions_erasure_takes_its_calls_and_leaves_its_sums(owner: Tenant) -> None:
    session, child = session_row(owner.account), session_row(owner.account)
    call = call_row(session, 1, 2)
    billed(call)
    spent(session, spent_tokens=10)
    Steer.objects.create(session=session, sealed_text=b"sealed", text_sha256="0" * 64)
    WindowEntry.objects.create(session=child, epoch=1, call=call, why="in_flight", order=1, open_until=Now())
    UsageEntry.objects.create(
        account=owner.account, session=child, epoch=1, call=call, served=Served.REPLAYED, billed=False, provider="anthropic", key_id="vlt_1"
    )
    assert erasure.deletion_facts(session) == {"model_calls": 1}
    assert [erasure.erase_session(session), erasure.erase_session(session)] == [{"model_calls": 1}, {"model_calls": 0}]
    assert [model.objects.exists() for model in (Call, CallPiece, Steer, WindowEntry)] == [False] * 4
    assert UsageEntry.objects.get().session_id == child.id  # its own ledger stays whole
    assert SessionBudget.objects.get(session=session).spent_tokens == 10


def test_an_export_has_the_metadata_of_keys_and_calls_and_no_secret(owner: Tenant) -> None:
    session = session_row(owner.account)
    key_of(owner.account)
    billed(call_row(session, 1, 2))
    found = list(account_export.rows_of(owner.account))
    assert found
    lines = [json.loads(line) for line in b"".join(_lines(owner)).splitlines()]
    kinds = {line["type"] for line in lines}
    assert {"provider_key", "model_call", "model_usage"} <= kinds
    assert SECRET not in str(lines)
    assert "sealed" not in str(lines)


def _lines(owner: Tenant) -> list[bytes]:
    from sessions_app.services import steps

    rows = [(type_, row) for step in steps.export_account for type_, row in step(owner.account)]
    return [account_export._line(type_, row) for type_, row in rows]


def test_a_session_that_calls_models_is_not_idle(owner: Tenant) -> None:
    session = session_row(owner.account)
    IdlePolicy.objects.create(session=session, enabled=True, active_at=LONG_AGO, look_at=LONG_AGO, warned_at=LONG_AGO)
    call = call_row(session, 1)
    idle_policy.run_due()
    assert not Operation.objects.exists()
    Call.objects.filter(id=call.id).update(ended=2, ended_at=LONG_AGO)
    IdlePolicy.objects.update(active_at=LONG_AGO, look_at=LONG_AGO, warned_at=Now())
    idle_policy.run_due()
    assert Operation.objects.get().parameters["stop"] is True
