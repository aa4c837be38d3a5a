"""Addresses that no machine reaches: every block by its edges, and nothing that the standard library would not call public."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_app.egress import addresses, dial


@pytest.mark.parametrize("network", [*addresses._V4, *addresses._V6])
def test_a_block_is_forbidden_from_its_first_address_to_its_last(network: str) -> None:
    block = ip_network(network)
    assert addresses.forbidden(block[0])
    assert addresses.forbidden(block[-1])


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "::ffff:127.0.0.1",
     "::127.0.0.1", "::ffff:0:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
     "2001:0:4136:e378::1", "255.255.255.255", "fe80::1%1", "ff02::1", "::", "4000::1"],
)  # fmt: skip
def test_metadata_and_addresses_within_addresses_are_forbidden(address: str) -> None:
    assert addresses.forbidden(ip_address(address))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "172.15.255.255", "172.32.0.0", "100.128.0.0", "2606:4700::1111", "2a00::1"]
)
def test_public_addresses_are_not(address: str) -> None:
    assert addresses.forbidden(ip_address(address)) == ""


@given(address=st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_is_let_through_is_public_by_another_authority_too(address: IPv4Address | IPv6Address) -> None:
    if not addresses.forbidden(address):
        assert address.is_global
        assert not any((address.is_multicast, address.is_private, address.is_reserved, address.is_link_local))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8"])
def test_a_hosts_own_address_is_known_as_such(address: str) -> None:
    assert dial.own(ip_address(address))


def test_another_hosts_address_is_not_its_own() -> None:
    assert not dial.own(ip_address("93.184.216.34"))
