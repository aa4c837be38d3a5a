"""One effect and one answer per Idempotency-Key."""

from typing import Any
from urllib.parse import quote

import pytest

from sessions_app.models import Operation, Session, SessionEvent
from tests.support.api import Caller, caller, error_of, new_key
from tests.support.fleet import Tenant, session_row
from tests.support.threads import at_once
from tests.support.worker import work

PATH = "/api/sessions"
BODY = {"Image": "tiny"}
REPLAYED = "KS-Operation-Replayed"


def test_the_first_answer_is_not_marked_and_the_second_is_the_same_operation_marked(api: Caller) -> None:
    key = new_key()
    first, second = api("POST", PATH, BODY, key=key), api("POST", PATH, BODY, key=key)
    assert REPLAYED not in first
    assert (second.status_code, second[REPLAYED]) == (202, "true")
    assert first.json()["data"]["operation_id"] == second.json()["data"]["operation_id"]
    assert Session.objects.count() == 1


def test_a_finished_operation_answers_what_the_first_request_would_have(api: Caller) -> None:
    key = new_key()
    operation = work(api("POST", PATH, BODY, key=key).json()["data"]["operation_id"])
    again = api("POST", PATH, BODY, key=key)
    assert (again.status_code, again.json(), again[REPLAYED]) == (201, operation.response, "true")


def test_a_replay_is_answered_even_if_the_state_no_longer_allows_the_request(api: Caller, owner: Tenant) -> None:
    session, key = session_row(owner.account), new_key()
    path = f"/api/sessions/{session.id}/checkpoint"
    work(api("POST", path, {"Stop": True}, key=key).json()["data"]["operation_id"])
    assert api("POST", path, {"Stop": True}, key=key).status_code == 200
    assert api("POST", path, {"Stop": True}).status_code == 409


def test_a_replay_is_answered_after_the_session_is_gone(api: Caller, owner: Tenant) -> None:
    session, key = session_row(owner.account), new_key()
    path = f"/api/sessions/{session.id}?force=1"
    work(api("DELETE", path, key=key).json()["data"]["operation_id"])
    assert (api("DELETE", path, key=key).status_code, api("DELETE", path).status_code) == (200, 404)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", PATH, {"Image": "tiny", "Budget": 7}), ("POST", "/api/sessions?x=1", BODY), ("DELETE", "/api/sessions/abcd", None)],
)
def test_the_key_of_another_request_is_refused_and_does_nothing(api: Caller, method: str, path: str, body: Any) -> None:
    key = new_key()
    first = api("POST", PATH, BODY, key=key).json()["data"]["operation_id"]
    refused = api(method, path, body, key=key)
    assert (refused.status_code, error_of(refused)["code"], error_of(refused)["operation_id"]) == (409, "ks_idempotency_conflict", first)
    assert Operation.objects.count() == 1


def test_a_refused_request_does_not_use_its_key_up(api: Caller) -> None:
    key = new_key()
    assert api("POST", PATH, {"Image": "tiny", "Budget": 0}, key=key).status_code == 400
    assert api("POST", PATH, {"Image": "tiny", "Budget": 9}, key=key).status_code == 202


def test_one_key_of_two_accounts_is_two_keys(api: Caller, stranger: Tenant) -> None:
    key = new_key()
    mine, theirs = api("POST", PATH, BODY, key=key), caller(stranger)("POST", PATH, BODY, key=key)
    assert mine.json()["data"]["operation_id"] != theirs.json()["data"]["operation_id"]
    assert REPLAYED not in theirs


@pytest.mark.parametrize("key", ["short", "k" * 101, "has a blank", "", "ümlaut-key"])
def test_a_key_of_another_form_is_refused(api: Caller, key: str) -> None:
    refused = api("POST", PATH, BODY, key=key)
    assert (refused.status_code, refused.json()["error"]) == (400, "ks_invalid")
    assert not Operation.objects.exists()


@pytest.mark.parametrize("key", ["op_" + "0" * 24, "orders/2026/1", "a?b#c%d&e", "ksop_" + "f" * 32])
def test_an_operation_is_found_by_its_key_whatever_that_looks_like(api: Caller, key: str) -> None:
    operation = api("POST", PATH, BODY, key=key).json()["data"]["operation_id"]
    assert api("GET", f"/api/operations/{quote(key)}").json()["data"]["operation_id"] == operation
    assert api("GET", f"/api/operations/{operation}").json()["data"]["operation_id"] == operation


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("what", ["start", "save", "delete"])
def test_equal_requests_at_the_same_time_have_one_effect_and_one_answer(owner: Tenant, what: str) -> None:
    session = session_row(owner.account, saved=True)
    method, path, body = {
        "start": ("POST", PATH, BODY),
        "save": ("POST", f"/api/sessions/{session.id}/checkpoint", {"Stop": False}),
        "delete": ("DELETE", f"/api/sessions/{session.id}", None),
    }[what]
    key = new_key()
    answers = _at_once(8, owner, method, path, body, lambda _: key)
    assert {answer.status_code for answer in answers} == {202}, [answer.content for answer in answers]
    assert len({answer.json()["data"]["operation_id"] for answer in answers}) == 1
    assert sum(REPLAYED not in answer for answer in answers) == 1
    assert Operation.objects.filter(idempotency_key=key).count() == 1


@pytest.mark.django_db(transaction=True)
def test_different_requests_at_the_same_time_leave_one_exclusive_operation_and_typed_refusals(owner: Tenant) -> None:
    session = session_row(owner.account)
    answers = _at_once(8, owner, "POST", f"/api/sessions/{session.id}/checkpoint", {}, lambda _: new_key())
    assert sorted(answer.status_code for answer in answers) == [202] + [409] * 7
    assert Operation.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_starts_at_the_same_time_under_one_key_leave_no_second_session_or_event(owner: Tenant) -> None:
    key = new_key()
    _at_once(8, owner, "POST", PATH, BODY, lambda _: key)
    assert (Session.objects.count(), SessionEvent.objects.count()) == (1, 1)


def _at_once(count: int, owner: Tenant, method: str, path: str, body: Any, key_of: Any) -> list[Any]:
    """The same request from so many callers at the same time."""
    return at_once(count, lambda number: caller(owner)(method, path, body, key=key_of(number)))
