"""Logs, usage and the meter of a session: what is known, in words and figures; null for what is not."""

from typing import Any

from django.db import transaction

from sessions_app.models import Session
from sessions_app.services import event
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.states import SessionState
from tests.support.api import Caller
from tests.support.fleet import Tenant, session_row

ENTRY = {
    "kind", "quantity", "unit", "provider", "model", "key_source", "calls", "input_tokens", "output_tokens", "tokens", "source",
    "reserved_live_tokens", "billed", "microusd", "currency", "price_source_version", "standing", "observed_at", "note",
}  # fmt: skip


def _logs(api: Caller, session: Session, query: str = "") -> Any:
    return api("GET", f"/api/v2/sessions/{session.id}/logs{query}").json()["data"]


def _append(session: Session, type_: str, **payload: str) -> None:
    with transaction.atomic():
        event.append(session.id, type_, payload, source="host")


def test_a_log_tells_what_happened_in_words_and_goes_on_from_its_cursor(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    _append(session, "session.created", image="tiny")
    _append(session, "session.machine_lost", reason="It was killed.")
    first = _logs(api, session, "?limit=1")
    assert (first["entries"][0]["level"], first["entries"][0]["text"]) == ("info", "The session was made, of the image tiny.")
    assert first["follow"] == {"ends": False, "why": "There are more lines.", "poll_after_s": 0}
    second = _logs(api, session, f"?cursor={first['next_cursor']}")
    (line,) = second["entries"]
    assert (line["level"], line["kind"], line["text"]) == ("error", "session.machine_lost", "The machine was lost. It was killed.")
    assert set(line) == {"source", "time", "level", "kind", "text"}
    assert second["follow"]["ends"] is False
    again = _logs(api, session, f"?cursor={second['next_cursor']}")
    assert (again["entries"], again["next_cursor"]) == ([], second["next_cursor"])


def test_following_ends_where_nothing_more_comes_by_itself(api: Caller, owner: Tenant) -> None:
    parked = session_row(owner.account, SessionState.PARKED, saved=True)
    assert _logs(api, parked)["follow"]["ends"] is True
    sessions.resume(parked, checkpoint_id=None, asked=Asked())
    assert _logs(api, parked)["follow"] == {"ends": False, "why": "A resume is queued.", "poll_after_s": 2}


def test_no_command_and_no_output_is_in_a_log(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    api("POST", f"/api/sessions/{session.id}/exec", {"Cmd": "echo planted-secret"})
    assert "planted-secret" not in str(_logs(api, session))


def test_usage_tells_each_kind_with_its_standing_and_null_for_what_is_not_known(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, saved=True)
    data = api("GET", f"/api/v2/sessions/{session.id}/usage").json()["data"]
    assert [entry["kind"] for entry in data["entries"]] == ["model", "runtime", "storage"]
    assert all(set(entry) == ENTRY and entry["microusd"] is None for entry in data["entries"])
    model = data["entries"][0]
    assert (model["standing"], model["tokens"], model["calls"], model["quantity"]) == ("actual", 0, 0, 0)
    assert data["limits"] == {"token_cap": 1000, "model_admission_limit_microusd": None, "admission_policy": "before_each_call"}
