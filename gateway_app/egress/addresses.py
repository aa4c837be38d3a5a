"""Which addresses no machine reaches, whatever its policy says: the registries' special-purpose blocks, as data.

Of IPv6 only global unicast is let through at all: what carries an IPv4 address within it (mapped, compatible, NAT64, 6to4, Teredo) would
otherwise be a second spelling of every block of IPv4.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

_V4 = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by a carrier",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "a cloud's own endpoint",
    "169.254.0.0/16": "link-local, where clouds tell metadata",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved for protocols",
    "192.0.2.0/24": "documentation",
    "192.88.99.0/24": "6to4 relay",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_V6 = {
    "::/128": "unspecified",
    "::1/128": "loopback",
    "::ffff:0:0/96": "IPv4-mapped",
    "64:ff9b::/96": "NAT64",
    "64:ff9b:1::/48": "NAT64",
    "100::/64": "discard",
    "2001::/23": "reserved for protocols",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4",
    "3fff::/20": "documentation",
    "fc00::/7": "unique local, where clouds tell metadata",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}
_V4_NETWORKS = [(IPv4Network(network), why) for network, why in _V4.items()]
_V6_NETWORKS = [(IPv6Network(network), why) for network, why in _V6.items()]
_GLOBAL_UNICAST = IPv6Network("2000::/3")


def forbidden(address: Address) -> str:
    """What it is that no machine reaches; empty for a public address."""
    if isinstance(address, IPv4Address):
        return next((why for network, why in _V4_NETWORKS if address in network), "")
    why = next((why for network, why in _V6_NETWORKS if address in network), "")
    return why or ("" if address in _GLOBAL_UNICAST else "not global unicast")
