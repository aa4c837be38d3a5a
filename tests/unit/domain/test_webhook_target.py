"""Where a webhook may go."""

import ipaddress

import pytest

from sessions_app.errors import Invalid
from sessions_app.services.webhooks import target
from sessions_app.services.webhooks.send import Message, send

INNER = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "64:ff9b::169.254.169.254",
    "2002:7f00:1::",
    "2001:db8::1",
]


@pytest.mark.parametrize("address", INNER)
def test_an_inner_address_is_refused_in_whatever_form_it_comes(address: str) -> None:
    assert not target.allowed_address(ipaddress.ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(Invalid):
        target.parse(f"https://{host}/hook")


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::93.184.216.34"])
def test_a_public_address_is_allowed(address: str) -> None:
    assert target.allowed_address(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https://user:word@example.com/",
        "https://example.com/#part",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https:///path",
        "https://[::1",
        "https://exämple.com/",
        "https://example.com/a b",
        "https://example.com/\r\nHost: other",
        "https://example.com/" + "a" * 600,
    ],
)
def test_what_is_no_plain_https_url_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        target.parse(url)


def test_a_name_that_leads_inside_is_not_connected_to() -> None:
    outcome = send(Message("msg_1", 1, "https://localhost/hook", b"{}", (b"x" * 32,)))
    assert (outcome.status, outcome.error) == (None, "the host's name leads to a private, local or reserved address")


def test_an_operator_may_allow_a_network_and_no_other(settings: pytest.FixtureRequest) -> None:
    settings.KEEPSTATE_WEBHOOK_NETWORKS = ["127.0.0.0/8"]  # type: ignore[attr-defined]
    assert target.allowed_address(ipaddress.ip_address("127.9.9.9"))
    assert not target.allowed_address(ipaddress.ip_address("10.0.0.1"))
