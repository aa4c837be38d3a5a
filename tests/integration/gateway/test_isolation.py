"""Nothing of one machine's calls answers, steers, pays for or stops another's: every look-up of the data path, from every side.

The owner of what is looked for is a parent session with a fork; each intruder asks on a channel of its own with a credential that opens it,
and names all that it could have learned: the relay's name of the call, the same bytes, the blocks that were answered.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from gateway_app.models import Call, EpochOrigin, KeyBinding, ProviderKey, SessionBudget, Steer, UsageEntry, WindowEntry
from gateway_app.proxy import channel
from gateway_app.proxy.answer import Frame
from gateway_app.proxy.channel import Channel
from gateway_app.services import steer, window
from gateway_app.states import Provider
from sessions_app.models import Account, Session
from sessions_app.services import steps
from tests.integration.gateway.house import SECRET, STREAM, Got, House, run
from tests.integration.gateway.odd import events, odd
from tests.integration.gateway.test_replay import unframed
from tests.support.fixtures import stranger
from tests.support.fleet import Tenant, session_row
from tests.unit.gateway import answers

__all__ = ["stranger"]
pytestmark = pytest.mark.django_db(transaction=True)
RELAY = "r-of-the-owner"
MESSAGES_ASKED: Any = STREAM["messages"]
BLOCKS: Any = answers.MESSAGE["content"]


def another(account: Account, last4: str, parent: Session | None = None, watermark: int = 0) -> Channel:
    """A running session with keys of its own; a fork's memory holds its parent's credential, and its line leads to the parent."""
    session = session_row(account, parent_id=parent.id if parent else "", budget_tokens=1_000_000)
    SessionBudget.objects.create(session=session)
    sealed = steps.seal.call(account.id, f"sk-another-{last4}".encode())
    for provider in Provider:
        key = ProviderKey.objects.create(account=account, provider=provider, last4=last4, secret=sealed)
        KeyBinding.objects.create(session=session, provider=provider, key=key)
    if parent is not None:
        EpochOrigin.objects.create(session=session, epoch=session.epoch, from_id=parent.id, from_epoch=1, watermark=watermark)
    return Channel(account.id, session.id, session.epoch, frozenset({session.id, *([parent.id] if parent else [])}))


@dataclass
class Scene:
    """`owner` made the call, and its window is open for it; `intruder` is who asks. The house's own provider had no call so far."""

    at: House
    owner: Channel
    intruder: Channel

    async def ask(self, body: Any = None, *, who: Channel | None = None, **headers: str) -> Got:
        asking = who or self.intruder
        token = channel.credential(asking.session_id, SECRET)
        return await self.at.ask(STREAM if body is None else body, url=await self.at.door(asking), x_api_key=token, **headers)


Made = Callable[[House, Tenant], tuple[Channel, Channel]]


def _other_tenant(at: House, other: Tenant) -> tuple[Channel, Channel]:
    return at.channel, another(other.account, "9999")


def _other_session(at: House, _: Tenant) -> tuple[Channel, Channel]:
    return at.channel, another(at.session.account, "9999")


def _sibling(at: House, _: Tenant) -> tuple[Channel, Channel]:
    return another(at.session.account, "1111", at.session), another(at.session.account, "9999", at.session)


def _parent(at: House, _: Tenant) -> tuple[Channel, Channel]:
    return another(at.session.account, "1111", at.session), at.channel


def _child(at: House, _: Tenant) -> tuple[Channel, Channel]:
    """Forked before the parent made the call."""
    return at.channel, another(at.session.account, "9999", at.session, window.watermark(at.session.id)["calls"])


def _other_epoch(epoch: int) -> Made:
    def made(at: House, _: Tenant) -> tuple[Channel, Channel]:
        Session.objects.filter(id=at.session.id).update(epoch=5)
        who = Channel(at.channel.account_id, at.session.id, 5, at.channel.line)
        return who, Channel(who.account_id, who.session_id, epoch, who.line)

    return made


#: Those that may call at all; a dead epoch, or one that has not begun, may not.
ALIVE: dict[str, Made] = {
    "other tenant": _other_tenant,
    "other session": _other_session,
    "sibling": _sibling,
    "parent": _parent,
    "child": _child,
}
DEAD: dict[str, Made] = {"older epoch": _other_epoch(4), "newer epoch": _other_epoch(6)}


def scene(owner: Tenant, stranger: Tenant, made: Made, act: Callable[[Scene], Awaitable[None]], *, one_key: bool = True) -> None:
    """`one_key`: an account's sessions are bound to the same, so that no difference of keys hides what else must keep them apart."""

    async def all_of_it(at: House) -> None:
        who, intruder = await sync_to_async(made)(at, stranger)
        if one_key:
            await sync_to_async(_one_key)(at.session.account)
        one = Scene(at, who, intruder)
        async with odd(at) as provider:
            provider.answer = events(answers.MESSAGE_STREAM)
            first = await one.ask(who=who, X_KeepState_Relay=RELAY, X_KeepState_Offset="0")
        assert b"".join(data for kind, data in unframed(first.body) if kind == Frame.DATA) == answers.MESSAGE_STREAM
        await at.gate.deliveries.tell()  # that it was had: else the window would be closed by that
        await sync_to_async(_open_window)(who)
        await act(one)

    run(owner.account, all_of_it)


def _one_key(account: Account) -> None:
    for provider in Provider:
        KeyBinding.objects.filter(provider=provider, session__account=account).update(
            key=account.provider_keys.filter(provider=provider)[0]
        )


def _open_window(who: Channel) -> None:
    call = Call.objects.get()
    later = timezone.now() + timedelta(minutes=5)
    facts = {"why": "in_flight", "order": call.started, "open_until": later}
    WindowEntry.objects.create(session_id=who.session_id, epoch=who.epoch, call=call, **facts)


def _going_on() -> dict[str, Any]:
    """The request with the first block of its answer, as a client asks that kept it."""
    kept = {"role": "assistant", "content": BLOCKS[:1]}
    return {**STREAM, "messages": [*MESSAGES_ASKED, kept]}


@pytest.mark.parametrize("who", list(ALIVE))
def test_nobody_else_is_answered_from_the_record_and_nobody_else_uses_it_up(owner: Tenant, stranger: Tenant, who: str) -> None:
    async def act(at: Scene) -> None:
        continued = unframed((await at.ask(X_KeepState_Relay=RELAY, X_KeepState_Offset="0")).body)
        replayed = await at.ask()
        extended = await at.ask(_going_on())
        beyond = await at.ask(X_KeepState_Relay=RELAY + "2", X_KeepState_Offset="10")
        assert b'"served": "upstream"' in continued[0][1]
        assert ["x-keepstate-replayed" in one.headers for one in (replayed, extended)] == [False, False]
        assert (beyond.status, at.at.bill["calls"]) == (409, 3)
        mine = await at.ask(who=at.owner)
        assert (mine.body, mine.headers["x-keepstate-replayed"], at.at.bill["calls"]) == (answers.MESSAGE_STREAM, "1", 3)

    scene(owner, stranger, ALIVE[who], act)


def test_what_they_asked_for_is_to_be_had_for_its_owner(owner: Tenant, stranger: Tenant) -> None:
    """Else nobody would have been kept from anything."""

    async def act(at: Scene) -> None:
        rest = await at.ask(_going_on(), who=at.owner)
        assert (rest.headers["x-keepstate-replayed"], b"signature_delta" in rest.body, b"tool_use" in rest.body) == ("1", False, True)
        told = unframed((await at.ask(who=at.owner, X_KeepState_Relay=RELAY, X_KeepState_Offset="10")).body)
        assert b"".join(data for kind, data in told if kind == Frame.DATA) == answers.MESSAGE_STREAM[10:]
        assert at.at.bill["calls"] == 0

    scene(owner, stranger, _other_session, act)


@pytest.mark.parametrize("who", list(ALIVE))
def test_everybody_pays_with_his_own_key_into_his_own_sums_and_is_steered_and_stopped_alone(
    owner: Tenant, stranger: Tenant, who: str
) -> None:
    async def act(at: Scene) -> None:
        mine = await sync_to_async(lambda: Session.objects.get(id=at.owner.session_id))()
        await sync_to_async(steer.add)(mine, "go left")
        await sync_to_async(Session.objects.filter(id=mine.id).update)(budget_tokens=1)
        before = await sync_to_async(_sums)(at.owner)
        assert (await at.ask({**STREAM, "system": "theirs"})).whole
        assert await sync_to_async(_sums)(at.owner) == before
        assert await sync_to_async(Steer.objects.filter(used_at=None).count)() == 1
        line = await sync_to_async(lambda: UsageEntry.objects.latest("id"))()
        key = await sync_to_async(lambda: ProviderKey.objects.get(id=line.key_id))()
        assert (line.session_id, key.account_id) == (at.intruder.session_id, at.intruder.account_id)
        assert at.at.bill["lines"][-1]["key_last4"] == key.last4
        assert (await at.ask({**STREAM, "system": "mine"}, who=at.owner)).status == 402

    scene(owner, stranger, ALIVE[who], act, one_key=False)


def _sums(who: Channel) -> tuple[int, int, int]:
    row = SessionBudget.objects.get(session_id=who.session_id)
    return row.spent_tokens, row.billed_calls, row.replayed_calls


@pytest.mark.parametrize("who", list(DEAD))
def test_a_channel_of_another_epoch_gets_nothing_of_its_own_session(owner: Tenant, stranger: Tenant, who: str) -> None:
    async def act(at: Scene) -> None:
        ways: list[Any] = [{"X_KeepState_Relay": RELAY, "X_KeepState_Offset": "0"}, {}]
        for given in ways:
            for body in (STREAM, _going_on()):
                got = await at.ask(body, **given)
                assert (got.status, got.json["error"]["code"]) == (503, "ks_epoch_mismatch")
        assert at.at.bill["calls"] == 0
        assert (await at.ask(who=at.owner)).headers["x-keepstate-replayed"] == "1"

    scene(owner, stranger, DEAD[who], act)


@pytest.mark.parametrize("who", ["other tenant", "other session", "sibling", "parent"])
def test_a_credential_opens_no_channel_but_its_own_and_those_of_its_forks(owner: Tenant, stranger: Tenant, who: str) -> None:
    async def act(at: Scene) -> None:
        stolen = channel.credential(at.owner.session_id, SECRET)
        got = await at.at.ask(STREAM, url=await at.at.door(at.intruder), x_api_key=stolen)
        assert (got.status, at.at.bill["calls"]) == (401, 0)

    scene(owner, stranger, ALIVE[who], act)


def test_a_fork_goes_on_with_what_its_parent_had_begun_before_it(owner: Tenant, stranger: Tenant) -> None:
    """The other side of it: this is what the line is for."""

    async def act(at: Scene) -> None:
        child = await sync_to_async(lambda: another(owner.account, "9999", at.at.session, window.watermark(at.at.session.id)["calls"]))()
        told = unframed((await at.ask(who=child, X_KeepState_Relay=RELAY, X_KeepState_Offset="10")).body)
        assert b"".join(data for kind, data in told if kind == Frame.DATA) == answers.MESSAGE_STREAM[10:]
        assert at.at.bill["calls"] == 0

    scene(owner, stranger, _other_session, act)
