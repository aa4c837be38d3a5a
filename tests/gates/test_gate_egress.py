"""Gate: a machine reaches the hosts that its session's policy names, at public addresses, and nothing else by any spelling or detour."""

import asyncio
import time
from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from gateway_app.egress import addresses, dial, watch
from gateway_app.egress.policy import Policy, Rule
from tests.integration.gateway.outside import HOST, PUBLIC, REDIRECT, Outside, channel, run
from tests.support.fixtures import doorbells, owner, stranger
from tests.support.fleet import Tenant, session_row

__all__ = ["doorbells", "owner", "stranger"]
pytestmark = pytest.mark.django_db(transaction=True)

#: Addresses that no machine may reach, one at least of every block, with the clouds' metadata.
ADDRESSES = (
    *("0.0.0.0", "10.0.0.1", "10.0.2.2", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.9.9.9", "168.63.129.16", "169.254.169.254"),
    *(
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
    ),
    *(
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
    ),
    *(
        "64:ff9b::7f00:1",
        "64:ff9b:1::a00:1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::",
        "3fff::1",
        "fd00:ec2::254",
    ),
    *("fc00::1", "fe80::1", "fec0::1", "ff02::1"),
)
#: Spellings by which something that reads hosts leniently would come to an address.
SPELLINGS = (
    *("127.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "0177.0.0.1", "127.0.0.1.", "0", "2852039166", "0xa9fea9fe"),
    *("localhost", "LOCALHOST", "localhost.", "127%2e0.0.1", "example.com@127.0.0.1", "example.com\\@127.0.0.1", "127.0.0.1#.example.com"),
    *("127.0.0.1:80@example.com", "１２７.0.0.1", "[::ffff:7f00:1%25lo]", "[fe80::1%25eth0]", "example.com:443:127.0.0.1", ""),
)
#: Names that the policy does not let through, beside one that it does.
NAMES = ("other.com", "example.com.other.com", "otherexample.com", "www.example.com", "com", "wild.com", "xwild.com")


def literal(address: str) -> str:
    return f"[{address}]" if ":" in address else address


async def attack(at: Outside) -> dict[str, int]:
    """Every way in turn. Returns how many were tried; raises AssertionError where one was dialled or let through."""
    at.world.names |= {name: [[PUBLIC]] for name in (*NAMES, "localhost")}
    await at.allow(Rule(HOST, (80, 443)), Rule("*.wild.com", (443,)))
    asked = [*map(literal, ADDRESSES), *SPELLINGS, *NAMES]
    tried = 0
    for host in asked:
        for request in (f"CONNECT {host}:443 HTTP/1.1\r\nHost: {HOST}\r\n\r\n", f"GET http://{host}/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n"):
            status, _ = await at.ask(request.encode())
            assert status in (400, 403), f"{host!r} was answered {status}"
            tried += 1
    for number, address in enumerate(ADDRESSES):  # a name that is allowed, and leads there: alone, or behind a public one
        for answer in ([address], [PUBLIC, address]):
            at.world.names[f"n{number}.wild.com"] = [answer]
            status, body = await at.ask(f"CONNECT n{number}.wild.com:443 HTTP/1.1\r\n\r\n")
            assert (status, b"ks_egress_forbidden" in body) == (403, True), f"a name that leads to {address} was answered {status}"
            tried += 1
    for port in (22, 25, 8080):
        assert (await at.ask(f"CONNECT {HOST}:{port} HTTP/1.1\r\n\r\n"))[0] == 403
        tried += 1
    assert at.world.dialled == [], "something was dialled"
    return {"tried": tried, "addresses": len(ADDRESSES), "spellings": len(SPELLINGS)}


async def let_through(at: Outside) -> None:
    """What the policy names is reached, so that the refusals say something."""
    assert (await at.ask(f"GET http://{HOST}/ HTTP/1.1\r\n\r\n")) == (200, b"ok")
    assert (await at.ask(f"CONNECT {HOST}:443 HTTP/1.1\r\n\r\nhello")) == (200, b"hello")
    assert at.world.dialled == [(PUBLIC, 80), (PUBLIC, 443)]
    at.world.dialled.clear()


async def detours(at: Outside) -> dict[str, Any]:
    """A name whose second answer is another; a host that sends its visitor elsewhere."""
    at.world.names[HOST] = [[PUBLIC], ["127.0.0.1"]]
    assert (await at.ask(f"CONNECT {HOST}:443 HTTP/1.1\r\n\r\nhello")) == (200, b"hello")
    assert at.world.dialled == [(PUBLIC, 443)], "what was judged is not what was connected"
    assert (await at.refusal(f"CONNECT {HOST}:443 HTTP/1.1\r\n\r\n"))[1]["code"] == "ks_egress_forbidden"
    at.world.names[HOST], at.world.answer = [[PUBLIC]], REDIRECT
    status, _ = await at.ask(f"GET http://{HOST}/ HTTP/1.1\r\n\r\n")
    assert status == 302, "an answer is passed on as it is, and the program asks anew"
    assert (await at.refusal("GET http://169.254.169.254/latest/ HTTP/1.1\r\n\r\n"))[1]["code"] == "ks_egress_address"
    assert {address for address, _ in at.world.dialled} == {PUBLIC}
    return {"dialled": len(at.world.dialled)}


async def changed(at: Outside, within: float) -> float:
    """A policy that changes under an open tunnel cuts it. Returns after how many seconds."""
    reader, writer = await at.tunnel()
    writer.write(b"open")
    assert await reader.readexactly(4) == b"open"
    await at.allow()
    began = time.monotonic()
    try:
        async with asyncio.timeout(within):
            rest = await reader.read()
    except ConnectionResetError:
        return time.monotonic() - began
    except TimeoutError:
        raise AssertionError("the tunnel stayed open") from None
    raise AssertionError(f"it ended cleanly, as if that were all: {rest!r}")


async def others(at: Outside, stranger: Tenant) -> int:
    """What one session may is nobody else's: neither another's of the account, nor another account's, nor an earlier epoch's."""
    await at.allow(Rule(HOST, (443,)))
    second, foreign = [await sync_to_async(session_row)(account) for account in (at.session.account, stranger.account)]
    await at.allow(Rule("other.com", (443,)), session=second)
    at.world.names["other.com"] = [[PUBLIC]]
    at.world.dialled.clear()
    mixed = replace(channel(foreign), session_id=at.session.id)
    for who in (channel(second), channel(foreign), mixed, channel(at.session, epoch=at.session.epoch - 1)):
        status, _ = await at.ask(f"CONNECT {HOST}:443 HTTP/1.1\r\n\r\n", port=await at.door(who))
        assert status in (403, 503), "another session's policy let it through"
    assert (await at.ask("CONNECT other.com:443 HTTP/1.1\r\n\r\n"))[0] == 403
    assert at.world.dialled == []
    return 5


@pytest.mark.gate("egress", "No spelling of a private or metadata address, no name that leads to one and no detour is ever connected to")
def test_nothing_but_what_the_policy_names_is_reached(owner: Tenant, evidence: dict[str, Any]) -> None:
    async def act(at: Outside) -> None:
        await let_through(at)
        evidence.update(await attack(at))
        evidence.update(await detours(at))

    run(owner.account, act)


@pytest.mark.gate("egress", "A policy that is changed cuts at once what it denies, and one session's policy opens nothing to another")
def test_a_policy_is_its_sessions_own_and_holds_at_once(owner: Tenant, stranger: Tenant, evidence: dict[str, Any]) -> None:
    async def act(at: Outside) -> None:
        evidence["cut_after_seconds"] = round(await changed(at, within=10), 2)
        evidence["other_channels"] = await others(at, stranger)

    run(owner.account, act)


def test_gate_egress_fails_where_addresses_are_not_judged(owner: Tenant) -> None:
    async def act(at: Outside) -> None:
        at.egress._forbidden = lambda _: ""
        with pytest.raises(AssertionError, match="a name that leads to"):
            await attack(at)

    run(owner.account, act)


def test_gate_egress_fails_where_a_name_is_looked_up_again_to_connect(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = dial.first

    async def by_name(dialler: Any, found: Any, port: int) -> Any:
        return await sound(dialler, [ip_address("127.0.0.1")], port)  # as the second lookup of the gate's name has it

    monkeypatch.setattr(dial, "first", by_name)

    async def act(at: Outside) -> None:
        with pytest.raises(AssertionError, match="judged"):
            await detours(at)

    run(owner.account, act)


def test_gate_egress_fails_where_a_policy_is_not_asked(owner: Tenant, stranger: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy, "allows", lambda *_: True)

    async def act(at: Outside) -> None:
        with pytest.raises(AssertionError, match="answered 200"):
            await attack(at)
        with pytest.raises(AssertionError, match="stayed open"):
            await changed(at, within=1)
        with pytest.raises(AssertionError, match="another session's policy"):
            await others(at, stranger)

    run(owner.account, act)


def test_gate_egress_fails_where_open_tunnels_are_not_looked_at(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: Any) -> None:
        """It looks at nothing."""

    monkeypatch.setattr(watch, "look", away)

    async def act(at: Outside) -> None:
        with pytest.raises(AssertionError, match="stayed open"):
            await changed(at, within=1)

    run(owner.account, act)


def test_the_attacks_name_an_address_of_every_block() -> None:
    named = [ip_address(address) for address in ADDRESSES]
    for network in map(ip_network, [*addresses._V4, *addresses._V6]):
        assert any(address in network for address in named), network
