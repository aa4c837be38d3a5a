"""Doorbells: rung after the commit, never before, and worth nothing if lost."""

import logging
from functools import partial
from typing import Any

import pytest
from celery import current_app
from django.db import transaction
from kombu.connection import Connection

from sessions_app.models import Operation
from sessions_app.services import dispatch
from sessions_app.services import lease as leases
from sessions_app.services.silence import Silence
from tests.support.fleet import Tenant, boot_asked, host_with_image, tenant
from tests.support.worker import work


@pytest.fixture(autouse=True)
def no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another test's broker may have been away."""
    monkeypatch.setattr(dispatch, "_silence", Silence("none"))


@pytest.mark.django_db(transaction=True)
def test_the_doorbell_rings_after_the_commit_and_carries_only_the_id(owner: Tenant, doorbells: list[tuple[str, ...]]) -> None:
    with transaction.atomic():
        operation = boot_asked(owner.account)
        assert doorbells == []
    assert doorbells == [(dispatch.RUN_OPERATION, operation.queue, operation.id)]


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_request_rings_nothing(owner: Tenant, doorbells: list[tuple[str, ...]]) -> None:
    with transaction.atomic():
        boot_asked(owner.account)
        transaction.set_rollback(True)
    assert doorbells == []
    assert not Operation.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_is_down_loses_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    nowhere = partial(Connection, "redis://127.0.0.1:1/0")
    monkeypatch.setattr(current_app._get_current_object(), "connection_for_write", nowhere)
    host_with_image()
    with caplog.at_level(logging.WARNING):
        operation = boot_asked(tenant().account)
    assert "doorbell not rung" in caplog.text
    operation.refresh_from_db()
    assert operation.state == "queued"
    assert work(operation.id).state == "succeeded"


@pytest.mark.django_db(transaction=True)
def test_a_doorbell_that_rings_twice_does_the_work_once(owner: Tenant) -> None:
    operation = boot_asked(owner.account)
    assert leases.claim(operation.id, "one") is not None
    assert leases.claim(operation.id, "two") is None


def test_a_message_goes_to_the_queue_by_name_and_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}
    monkeypatch.setattr(type(current_app._get_current_object()), "send_task", lambda _app, name, **options: sent.update(options, name=name))
    dispatch._send(dispatch.RUN_OPERATION, "pin.abc", "op_1")
    assert (sent["name"], sent["args"], sent["queue"].name) == (dispatch.RUN_OPERATION, ("op_1",), "pin.abc")
    assert 0 < sent["expires"] <= 60
