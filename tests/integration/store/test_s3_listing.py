"""A listing over S3 is whole or an error."""

from dataclasses import replace

import pytest

from checkpoints_app.store import PermissionDeniedError, UnavailableError
from tests.support import s3_faults as faults

KEYS = sorted(f"accounts/one/packs/{number:02}" for number in range(7))
PAGE = "list-type=2"
NEXT = "continuation-token"


@pytest.fixture
def listed(direct, behind, proxy):
    """A listing in pages of three."""
    for key in KEYS:
        direct.put_if_absent(key, [b"x"])
    return lambda: [found.key for found in behind.list("")]


def test_every_page_is_read(listed, proxy):
    proxy.plan(faults.in_pages_of(3), "GET", part=PAGE)
    assert listed() == KEYS
    assert proxy.count("GET") == 3


def test_an_error_on_a_later_page_is_an_error(listed, proxy):
    proxy.plan(faults.in_pages_of(3), "GET", part=PAGE, times=1)
    proxy.plan(faults.refuses(403, "AccessDenied"), "GET", part=NEXT)
    with pytest.raises(PermissionDeniedError):
        listed()


def test_a_page_that_fails_once_is_read_again_and_nothing_is_listed_twice(listed, proxy):
    proxy.plan(faults.in_pages_of(3), "GET", part=PAGE, times=1)
    proxy.plan(faults.refuses(500, "InternalError"), "GET", part=NEXT, times=1)
    proxy.plan(faults.cuts_the_body, "GET", part=NEXT, times=1)
    proxy.plan(faults.in_pages_of(3), "GET", part=PAGE)
    assert listed() == KEYS


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        (b"<IsTruncated>true</IsTruncated>", b""),
        (b"<KeyCount>3</KeyCount>", b"<KeyCount>4</KeyCount>"),
        (b"<Size>1</Size>", b""),
        (b"NextContinuationToken>", b"Other>"),
        (b"/accounts/one/packs/00</Key>", b"-others/00</Key>"),
    ],
)
def test_a_page_that_does_not_say_beyond_doubt_how_it_goes_on_is_refused(listed, proxy, found, instead):
    def damage(answer):
        assert found in answer.body
        return replace(answer, body=answer.body.replace(found, instead))

    def small_and_damaged(exchange):
        exchange.request = replace(exchange.request, path=f"{exchange.request.path}&max-keys=3")
        exchange.give(damage(exchange.forward(exchange.request)))

    proxy.plan(small_and_damaged, "GET", part=PAGE)
    with pytest.raises(UnavailableError, match="listing"):
        listed()


def test_a_page_of_somebody_else_is_refused(listed, proxy):
    page = b"<html>Welcome</html>"
    proxy.plan(faults.answers_changed(lambda answer: replace(answer, body=page)), "GET", part=PAGE)
    with pytest.raises(UnavailableError):
        listed()


def test_what_has_no_key_of_ours_is_left_out(direct, listed, s3_server):
    for name in ("folder/", ".hidden"):
        direct.bucket.client.put_object(Bucket=direct.bucket.name, Key=f"{direct.bucket.location}/{name}", Body=b"")
    assert listed() == KEYS


def test_a_location_does_not_show_its_neighbours(direct, listed):
    direct.bucket.client.put_object(Bucket=direct.bucket.name, Key=f"{direct.bucket.location}-other/accounts/x", Body=b"")
    assert listed() == KEYS
