"""Requests to the egress proxy: read strictly, written anew for the host that their target names, and no address is one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway_app.egress import head, names
from gateway_app.egress.head import NoLength
from gateway_app.egress.names import IsAddress, Target, Unreadable
from gateway_app.egress.policy import Policy, Rule

ADDRESSES = [
    *(
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "0x7f.0x0.0x0.0x1",
        "127.0.0.1.",
        "8.8.8.8",
    ),
    *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[fe80::1%25eth0]", "[fd00:ec2::254]", "169.254.169.254", "0", "0x", "a.b.1"),
]


@pytest.mark.parametrize("text", ADDRESSES)
def test_no_spelling_of_an_address_is_a_host(text: str) -> None:
    with pytest.raises(IsAddress):
        names.target(f"{text}:443")
    with pytest.raises(Unreadable):
        names.url(f"http://{text}/")


@pytest.mark.parametrize(
    "text",
    ["localhost:80", "example.com", "example.com:", "example.com:0", "example.com:65536", "example.com:+1", "example.com:٣",
     "ex ample.com:80", "example..com:80", "-a.com:80", "a_b.com:80", "bücher.de:80", "user@example.com:80", "example.com/:80",
     "127%2e0.0.1:80", ":80", "", "a" * 64 + ".com:80", "a." * 126 + "com:80", "example.com\\@evil.com:80", "example.com:80:80",
     "１２７.0.0.1:80"],
)  # fmt: skip
def test_what_is_no_full_name_and_port_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        names.target(text)


def test_a_name_is_taken_in_lower_case_without_the_dot_of_the_root() -> None:
    assert names.target("API.Example.COM.:443") == Target("api.example.com", 443)
    assert names.url("HTTP://Example.com?q=1") == (Target("example.com", 80), "/?q=1")
    assert names.url("http://example.com:8080/a/b?c") == (Target("example.com", 8080), "/a/b?c")


@pytest.mark.parametrize("url", ["https://example.com/", "ftp://example.com/", "http://u:p@example.com/", "http://example.com/#f", "http:///a",
                                 "http://example.com\\@10.0.0.1/", "/path", "*", "example.com"])  # fmt: skip
def test_only_a_plain_http_url_is_passed_on(url: str) -> None:
    with pytest.raises(Unreadable):
        head.read(f"GET {url} HTTP/1.1\r\nHost: example.com\r\n\r\n".encode())


def test_the_urls_host_decides_whatever_the_request_says_and_what_is_the_proxys_ends_there() -> None:
    fields = (
        "Host: evil.com\r\nProxy-Authorization: Basic x\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nAccept: */*\r\nContent-Length: 3"
    )
    asked = head.read(f"POST http://example.com:81/a HTTP/1.1\r\n{fields}\r\n\r\n".encode())
    assert (asked.target, asked.body_bytes) == (Target("example.com", 81), 3)
    assert asked.forward == (b"POST /a HTTP/1.1\r\nHost: example.com:81\r\nAccept: */*\r\nContent-Length: 3\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize(
    "fields",
    ["Content-Length: 3\r\nContent-Length: 4", "Content-Length: -1", "Content-Length: 1,1", "Content-Length : 1", " folded: 1",
     "a: b\n c: d", "a: b\rc: d", "a: \0", "no colon", "Transfer-Encoding: chunked", "a: b\r\n" * 129],
)  # fmt: skip
def test_a_head_that_two_readers_could_read_differently_is_refused(fields: str) -> None:
    with pytest.raises(Unreadable):
        head.read(f"POST http://example.com/ HTTP/1.1\r\n{fields}\r\n\r\n".encode())


def test_a_body_of_untold_length_is_refused_by_its_own_words() -> None:
    with pytest.raises(NoLength, match="Content-Length"):
        head.read(b"POST http://example.com/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")


@given(data=st.binary(max_size=200))
@example(b"\x16\x03\x01\x02\x00\x01\r\n\r\n")
@example(b"CONNECT a.com:443 HTTP/1.1\r\n\r\nrest")
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        asked = head.read(data + head.END)
    except Unreadable:
        return
    assert names.target(f"{asked.target.host}:{asked.target.port}") == asked.target


_WORDS = st.sampled_from(
    ["GET", "CONNECT", " ", "http://", "example.com", "127.0.0.1", ":", "80", "/", "@", "#", "\r\n", "Host: ", "HTTP/1.1", "\0", "[::1]"]
)


@given(words=st.lists(_WORDS, max_size=16))
def test_whatever_is_put_together_leads_to_a_name_or_nowhere(words: list[str]) -> None:
    try:
        asked = head.read("".join(words).encode() + head.END)
    except Unreadable:
        return
    assert asked.target.host.rpartition(".")[2].isalpha()


@pytest.mark.parametrize(
    ("host", "port", "allowed"),
    [("example.com", 443, True), ("example.com", 80, False), ("www.example.com", 443, False), ("a.pypi.org", 80, True),
     ("a.b.pypi.org", 80, True), ("pypi.org", 80, False), ("evilpypi.org", 80, False), ("pypi.org.evil.com", 80, False)],
)  # fmt: skip
def test_a_policy_lets_its_hosts_through_on_their_ports_and_nothing_else(host: str, port: int, allowed: bool) -> None:
    rules = (Rule("example.com", (443,)), Rule("*.pypi.org", (80, 443)))
    assert Policy("allow_list", rules).allows(Target(host, port)) is allowed
    assert not Policy("deny", rules).allows(Target(host, port))
