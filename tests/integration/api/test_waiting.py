"""Without `Prefer: respond-async` the answer is the outcome; waiting holds neither a transaction nor a place for ever."""

import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from sessions_app.api import idempotency
from sessions_app.errors import StartFailed
from sessions_app.models import Operation
from sessions_app.services import dispatch, wait
from tests.support.api import Caller, error_of, new_key
from tests.support.fleet import Tenant
from tests.support.worker import fail, work

BODY = {"Image": "tiny"}


@pytest.fixture
def on_doorbell(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[str], object]], None]]:
    """Let something happen to the operation on another thread and connection once its row is committed; it ends before the test does."""
    begun = list[threading.Thread]()

    def install(act: Callable[[str], object]) -> None:
        def run(operation_id: str) -> None:
            try:
                act(operation_id)
            finally:
                connection.close()

        def send(_task: str, _queue: str, operation_id: str) -> None:
            begun.append(threading.Thread(target=run, args=(operation_id,)))
            begun[-1].start()

        monkeypatch.setattr(dispatch, "_send", send)

    yield install
    for thread in begun:
        thread.join()


@pytest.mark.django_db(transaction=True)
def test_the_answer_waits_for_the_outcome(owner: Tenant, api: Caller, on_doorbell: Callable[..., None]) -> None:
    on_doorbell(work)
    answer = api("POST", "/api/sessions", BODY, wait=True)
    assert (answer.status_code, answer.json()["state"]) == (201, "running")
    assert "Preference-Applied" not in answer


@pytest.mark.django_db(transaction=True)
def test_a_failure_is_answered_as_the_worker_told_it(owner: Tenant, api: Caller, on_doorbell: Callable[..., None]) -> None:
    on_doorbell(lambda operation_id: fail(operation_id, StartFailed("The machine did not start.", next_action="Delete it.")))
    answer = api("POST", "/api/sessions", BODY, wait=True)
    assert (answer.status_code, answer.json()["error"]) == (500, "ks_start_failed")
    assert answer.json()["operation_id"] == Operation.objects.get().id


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_it_waits(owner: Tenant, api: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    open_ones: list[bool] = []

    def finish_instead_of_sleeping(_seconds: float) -> None:
        open_ones.append(connection.in_atomic_block)
        work(Operation.objects.get().id)

    monkeypatch.setattr("sessions_app.services.wait.time.sleep", finish_instead_of_sleeping)
    assert api("POST", "/api/sessions", BODY, wait=True).status_code == 201
    assert open_ones == [False]


def test_an_outcome_that_does_not_come_in_time_is_answered_as_an_operation(api: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "WAIT_SECONDS", 0.0)
    answer = api("POST", "/api/sessions", BODY, wait=True)
    assert (answer.status_code, answer.json()["data"]["state"]) == (202, "queued")
    assert "Preference-Applied" not in answer


def test_beyond_the_places_for_waiting_the_operation_is_answered_at_once(api: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "_places", threading.BoundedSemaphore(1))
    with wait._places:
        assert api("POST", "/api/sessions", BODY, wait=True).status_code == 202
    monkeypatch.setattr(idempotency, "WAIT_SECONDS", 0.0)
    assert wait._places.acquire(blocking=False)


def test_a_repeated_request_does_not_wait(api: Caller) -> None:
    key = new_key()
    api("POST", "/api/sessions", BODY, key=key)
    again = api("POST", "/api/sessions", BODY, key=key, wait=True)
    assert (again.status_code, again["KS-Operation-Replayed"]) == (202, "true")


@pytest.mark.parametrize("prefer", ["respond-async", "RESPOND-ASYNC", "wait=10, respond-async", "respond-async; foo=bar, handling=lenient"])
def test_the_preference_is_read_among_others(api: Caller, prefer: str) -> None:
    answer = api("POST", "/api/sessions", BODY, wait=True, Prefer=prefer)
    assert (answer.status_code, answer["Preference-Applied"]) == (202, "respond-async")


def test_a_cancelled_operation_is_an_error_with_its_reason(api: Caller, owner: Tenant) -> None:
    key = new_key()
    session = api("POST", "/api/sessions", BODY, key=key).json()["data"]["session_id"]
    api("DELETE", f"/api/sessions/{session}?force=1")
    again = api("POST", "/api/sessions", BODY, key=key)
    assert (again.status_code, error_of(again)["code"]) == (409, "ks_cancelled")
