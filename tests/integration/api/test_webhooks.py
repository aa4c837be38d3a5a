"""Webhooks: an event of a session reaches its account's endpoint, signed, once or again, and nobody else's."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now
from standardwebhooks.webhooks import Webhook

from sessions_app.models import Session, WebhookDelivery, WebhookEndpoint
from sessions_app.services import event
from sessions_app.services.webhooks import delivery
from sessions_app.states import DeliveryState
from tests.support.api import Caller, caller, error_of, new_key
from tests.support.fleet import Tenant, session_row
from tests.support.receiver import Receiver, receiver

PATH = "/api/v2/webhooks"


@pytest.fixture(scope="module")
def listening() -> Iterator[Receiver]:
    with receiver() as one:
        yield one


@pytest.fixture
def hook(listening: Receiver, settings: Any) -> Receiver:
    settings.KEEPSTATE_WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    listening.got.clear()
    listening.answers.clear()
    return listening


@pytest.fixture
def made(api: Caller, hook: Receiver) -> dict[str, Any]:
    answer = api("POST", PATH, {"url": hook.url})
    assert answer.status_code == 201, answer.content
    return dict(answer.json()["data"])


def happen(session: Session, type_: str = "session.parked", **payload: Any) -> None:
    with transaction.atomic():
        event.append(session.id, type_, payload, source="test")


def due_now() -> None:
    WebhookDelivery.objects.filter(state=DeliveryState.PENDING).update(due_at=Now())


def test_an_event_arrives_signed_as_the_published_verifier_wants_it(made: dict[str, Any], hook: Receiver, owner: Tenant) -> None:
    session = session_row(owner.account)
    happen(session, checkpoint_id="ck_1", reason="secret words of the customer")
    assert delivery.run_turn() == 1
    headers, body = hook.got[0]
    told = Webhook(made["secret"]).verify(body, headers)
    assert told["type"] == "session.parked"
    assert (told["data"]["session_id"], told["data"]["checkpoint_id"], told["data"]["stream_seq"]) == (session.id, "ck_1", 1)
    assert b"secret words" not in body


def test_a_message_that_was_taken_is_not_sent_again(made: dict[str, Any], hook: Receiver, owner: Tenant) -> None:
    happen(session_row(owner.account))
    assert [delivery.run_turn(), delivery.run_turn()] == [1, 0]
    assert WebhookDelivery.objects.get().state == DeliveryState.DELIVERED


def test_a_message_that_is_refused_comes_again_later_under_the_same_id(made: dict[str, Any], hook: Receiver, owner: Tenant) -> None:
    hook.answers.append((500, {}))
    happen(session_row(owner.account))
    delivery.run_turn()
    assert delivery.run_turn() == 0
    row = WebhookDelivery.objects.get()
    assert (row.state, row.last_status, row.attempt) == (DeliveryState.PENDING, 500, 1)
    due_now()
    delivery.run_turn()
    assert len({headers["webhook-id"] for headers, _ in hook.got}) == 1
    assert WebhookDelivery.objects.get().state == DeliveryState.DELIVERED


def test_an_endpoint_that_asks_for_time_gets_it(made: dict[str, Any], hook: Receiver, owner: Tenant) -> None:
    hook.answers.append((503, {"Retry-After": "3600"}))
    happen(session_row(owner.account))
    delivery.run_turn()
    row = WebhookDelivery.objects.get()
    assert row.due_at is not None
    assert (row.due_at - row.created_at).total_seconds() > 3500


def test_a_redirect_is_a_refusal_and_is_not_followed(made: dict[str, Any], hook: Receiver, owner: Tenant) -> None:
    hook.answers.append((307, {"Location": "http://169.254.169.254/"}))
    happen(session_row(owner.account))
    delivery.run_turn()
    assert WebhookDelivery.objects.get().last_status == 307
    assert len(hook.got) == 1


def test_a_message_is_given_up_in_the_end_and_a_silent_endpoint_disabled(made: dict[str, Any], hook: Receiver, owner: Tenant) -> None:
    hook.answers.append((500, {}))
    happen(session_row(owner.account))
    WebhookDelivery.objects.update(attempt=len(delivery.WAITS))
    delivery.run_turn()
    assert WebhookDelivery.objects.get().state == DeliveryState.GIVEN_UP
    endpoint = WebhookEndpoint.objects.get()
    assert (endpoint.enabled, endpoint.disabled_reason) == (False, "a message was given up, and none was taken since it was written")


def test_an_endpoint_that_is_gone_is_disabled(made: dict[str, Any], hook: Receiver, owner: Tenant) -> None:
    hook.answers.append((410, {}))
    happen(session_row(owner.account))
    delivery.run_turn()
    assert WebhookEndpoint.objects.get().enabled is False
    happen(Session.objects.get())
    assert WebhookDelivery.objects.count() == 1


def test_a_worker_that_dies_in_an_attempt_leaves_the_message_to_another(made: dict[str, Any], hook: Receiver, owner: Tenant) -> None:
    happen(session_row(owner.account))
    taken = list(delivery._take_up())  # and dies
    assert len(taken) == 1
    assert delivery.run_turn() == 0
    due_now()
    assert delivery.run_turn() == 1


def test_only_the_types_that_were_asked_for_are_told(api: Caller, hook: Receiver, owner: Tenant) -> None:
    api("POST", PATH, {"url": hook.url, "types": ["checkpoint.*", "session.failed"]})
    session = session_row(owner.account)
    for type_ in ("session.parked", "checkpoint.published", "session.failed", "file.written"):
        happen(session, type_)
    assert sorted(WebhookDelivery.objects.values_list("event_type", flat=True)) == ["checkpoint.published", "session.failed"]


def test_an_event_that_is_rolled_back_tells_nobody(made: dict[str, Any], owner: Tenant) -> None:
    session = session_row(owner.account)
    with transaction.atomic():
        event.append(session.id, "session.parked", source="test")
        transaction.set_rollback(True)
    assert not WebhookDelivery.objects.exists()


def test_another_accounts_events_are_not_told(made: dict[str, Any], stranger: Tenant) -> None:
    happen(session_row(stranger.account))
    assert not WebhookDelivery.objects.exists()


def test_a_secret_is_told_once_and_stands_nowhere(api: Caller, hook: Receiver) -> None:
    key = new_key()
    first, again = api("POST", PATH, {"url": hook.url}, key=key), api("POST", PATH, {"url": hook.url}, key=key)
    assert first.json()["data"]["secret"].startswith("whsec_")
    assert "secret" not in again.json()["data"]
    assert again["KS-Operation-Replayed"] == "true"
    assert "whsec_" not in api("GET", PATH).content.decode()
    assert WebhookEndpoint.objects.count() == 1


def test_after_a_change_of_secret_both_verify(made: dict[str, Any], api: Caller, hook: Receiver, owner: Tenant) -> None:
    drawn = api("POST", f"{PATH}/{made['id']}/rotate-secret").json()["data"]["secret"]
    api("POST", f"{PATH}/{made['id']}/test")
    delivery.run_turn()
    headers, body = hook.got[0]
    for secret in (made["secret"], drawn):
        assert Webhook(secret).verify(body, headers)["type"] == "webhook.test"


def test_a_message_is_sent_again_on_request(made: dict[str, Any], api: Caller, hook: Receiver, owner: Tenant) -> None:
    happen(session_row(owner.account))
    delivery.run_turn()
    message = api("GET", f"{PATH}/{made['id']}/deliveries?state=delivered").json()["data"]["items"][0]["id"]
    assert api("POST", f"{PATH}/{made['id']}/deliveries/{message}/redeliver").status_code == 200
    delivery.run_turn()
    assert [headers["webhook-id"] for headers, _ in hook.got] == [message, message]


def test_a_change_names_the_revision_that_it_was_made_for(made: dict[str, Any], api: Caller) -> None:
    path = f"{PATH}/{made['id']}"
    changed = api("PATCH", path, {"expected_revision": 1, "enabled": False})
    assert (changed.json()["data"]["enabled"], changed.json()["data"]["revision"]) == (False, 2)
    refused = api("PATCH", path, {"expected_revision": 1, "enabled": True})
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_revision_conflict")


def test_a_url_that_leads_inside_is_refused_and_nothing_is_made(api: Caller) -> None:
    refused = api("POST", PATH, {"url": "https://169.254.169.254/latest"})
    assert (refused.status_code, error_of(refused)["code"]) == (400, "ks_invalid")
    assert not WebhookEndpoint.objects.exists()


def test_another_accounts_webhook_is_not_found(made: dict[str, Any], stranger: Tenant) -> None:
    theirs = caller(stranger)
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/test"), ("POST", "/rotate-secret"), ("GET", "/deliveries")):
        assert theirs(method, f"{PATH}/{made['id']}{path}").status_code == 404
    assert WebhookEndpoint.objects.get().enabled
