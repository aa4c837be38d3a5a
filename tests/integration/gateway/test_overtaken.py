"""A gateway that stands still between the admission of a request and its sending, while the session goes on elsewhere: the provider hears
nothing of it.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from gateway_app.models import Call, UsageEntry
from gateway_app.proxy import admission, call_rows, standing
from gateway_app.states import CallState
from sessions_app.models import Session
from tests.integration.gateway.house import MESSAGES, House, run, until
from tests.support.fleet import Tenant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def long_ago(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every admission is older than what is believed."""
    clock = admission.now
    monkeypatch.setattr(admission.Admission, "__init__", _begun_before)
    yield
    assert admission.now is clock


def _begun_before(self: admission.Admission, channel: Any, database: Any) -> None:
    self.channel, self.database, self.at = channel, database, admission.now() - 2 * admission.FRESH_SECONDS


@sync_to_async
def goes_on_elsewhere(session: Session) -> None:
    Session.objects.filter(id=session.id).update(epoch=session.epoch + 1)


@sync_to_async
def refused() -> bool:
    return Call.objects.get().state == CallState.REFUSED


def overtaken_after(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, session: Session) -> None:
    sound = getattr(owner, name)

    async def then_the_session_goes_on(*arguments: Any) -> Any:
        found = await sound(*arguments)
        await goes_on_elsewhere(session)
        return found

    monkeypatch.setattr(owner, name, then_the_session_goes_on)


def test_a_call_whose_session_went_on_before_it_was_sent_is_not_sent_and_not_billed(
    owner: Tenant, long_ago: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(at: House) -> None:
        overtaken_after(monkeypatch, call_rows, "open_call", at.session)
        got = await at.ask()
        assert (got.status, at.bill["calls"]) == (503, 0)
        await until(refused)
        assert not await sync_to_async(UsageEntry.objects.exists)()

    run(owner.account, act)


def test_what_is_passed_on_unrecorded_is_not_sent_either(owner: Tenant, long_ago: None, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(at: House) -> None:
        overtaken_after(monkeypatch, standing, "standing", at.session)
        got = await at.ask(path=f"{MESSAGES}/count_tokens")
        assert (got.status, b"ks_epoch_mismatch" in got.body) == (503, True)

    run(owner.account, act)


def test_a_call_that_was_admitted_long_ago_is_sent_if_its_session_still_runs(owner: Tenant, long_ago: None) -> None:
    async def act(at: House) -> None:
        first, second = await at.ask(), await at.ask()  # the second one goes over the first one's connection
        assert (first.status, second.status, at.bill["calls"]) == (200, 200, 2)

    run(owner.account, act)
