"""What must not be believed, and what must not be waited for without end: the faults of other stores that ours had too, or nearly."""

import logging
from contextlib import suppress
from dataclasses import replace

import pytest

from checkpoints_app.store import StoreError, UnavailableError
from checkpoints_app.store.backends.s3 import Bucket, Patience, S3Backend, Terms, UnfitServerError, probe
from checkpoints_app.store.backends.s3.place import make_client
from tests.integration.store.conftest import ATTEMPTS
from tests.store_suite import A, B
from tests.support import s3_faults as faults
from tests.support.s3_proxy import Answer
from tests.support.seaweed import VERSIONED

BODY = bytes(range(256)) * 400
BIG = bytes(range(256)) * 64_000  # more than the buffers between us and a server hold


def test_a_deletion_that_left_a_version_is_no_success_when_it_is_repeated_either(direct):
    backend = S3Backend(replace(direct.bucket, name=VERSIONED), direct.terms)
    backend.put_if_absent(A, [BODY])
    for _ in range(3):
        with pytest.raises(UnavailableError, match="keeps versions"):
            backend.delete(A)


@pytest.mark.parametrize("page", [b"<html>Welcome</html>", b"", b"<?xml version='1.0'?><Error><Code>InternalError</Code></Error>"])
@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_an_answer_200_of_something_in_between_is_not_taken_for_the_servers(behind, proxy, direct, method, page):
    direct.put_if_absent(A, [BODY])
    proxy.plan(lambda exchange: exchange.give(Answer(200, {"Content-Type": "text/html"}, page)), method)
    acts = {
        "PUT": [lambda: behind.put_if_absent(B, [BODY])],
        "GET": [lambda: behind.read(A, 0, 10), lambda: behind.size(A), lambda: behind.size(B), lambda: list(behind.list(""))],
    }
    for act in acts[method]:
        with pytest.raises(UnavailableError, match=f"tried {ATTEMPTS} times"):
            act()
    proxy.heal()
    assert [listed.key for listed in direct.list("")] == [A]


def quick(s3_server, proxy, location, *, connect_seconds=5, body_seconds=60) -> S3Backend:
    """One attempt, with other times."""
    place = replace(s3_server.place(location, endpoint=proxy.endpoint), connect_seconds=connect_seconds)
    patience = Patience(attempts=1, body_seconds=body_seconds, slowest=1 << 40)
    return S3Backend(Bucket(make_client(place), place.bucket, location, patience), Terms(True, "crc32"))


def test_an_upload_may_take_longer_than_a_connection_as_long_as_it_goes_on(s3_server, proxy, location, direct):
    backend = quick(s3_server, proxy, location, connect_seconds=4)
    proxy.receive_slowly(pieces=16, pause=0.3)
    backend.put_if_absent(A, [BIG])
    assert direct.size(A) == len(BIG)


def test_an_upload_that_takes_too_long_in_all_is_given_up(s3_server, proxy, location):
    backend = quick(s3_server, proxy, location, body_seconds=0.3)
    proxy.receive_slowly(pieces=16, pause=0.2)
    with pytest.raises(UnavailableError, match="in all"):
        backend.put_if_absent(A, [BIG])


@pytest.mark.parametrize("act", ["read", "head"])
def test_a_download_that_comes_in_drops_is_given_up_though_each_comes_in_time(s3_server, proxy, location, direct, act):
    direct.put_if_absent(A, [BODY])
    backend = quick(s3_server, proxy, location, body_seconds=0.5)
    proxy.plan(faults.drips, "GET")
    with pytest.raises(UnavailableError, match="in all"):
        backend.read(A, 0, len(BODY)) if act == "read" else backend.head(A, len(BODY))


def test_a_listing_that_comes_to_the_same_page_again_is_an_error_and_ends(direct, behind, proxy):
    for number in range(4):
        direct.put_if_absent(f"{A}{number}", [b"x"])

    def first_page_for_ever(exchange):
        path = exchange.request.path.split("&continuation-token")[0]
        answer = exchange.forward(replace(exchange.request, path=f"{path}&max-keys=2"))
        number = b"%d" % proxy.count("GET")
        tag = b"NextContinuationToken>"
        start, end = answer.body.find(b"<" + tag), answer.body.find(b"</" + tag)
        exchange.give(replace(answer, body=answer.body[: start + 1 + len(tag)] + number + answer.body[end:]))

    proxy.plan(first_page_for_ever, "GET", part="list-type=2")
    with pytest.raises(UnavailableError, match="does not go on"):
        list(behind.list(""))


def test_a_server_that_ends_a_listing_after_its_first_page_is_refused(behind, proxy, direct):
    def ends_early(answer):
        return replace(answer, body=answer.body.replace(b"<IsTruncated>true<", b"<IsTruncated>false<"))

    proxy.plan(faults.answers_changed(ends_early), "GET", part="list-type=2")
    with pytest.raises(UnfitServerError, match="lists only a part"):
        probe(behind.bucket)
    assert list(direct.list("")) == []


@pytest.mark.parametrize("trouble", [faults.loses_the_answer, faults.refuses(409, "ConditionalRequestConflict")])
def test_a_fit_server_is_not_called_unfit_for_conditions_by_a_trouble_that_passes(behind, proxy, trouble):
    proxy.plan(trouble, "PUT", part="-race", times=4)
    assert probe(behind.bucket).conditional


def test_no_log_line_of_any_level_holds_a_secret(s3_server, proxy, location, caplog):
    found = replace(s3_server.credentials, session_token="t0ken-t0ken-t0ken")
    place = replace(s3_server.place(location, endpoint=proxy.endpoint), credentials=found)
    with caplog.at_level(logging.DEBUG):
        backend = S3Backend(Bucket(make_client(place), place.bucket, location, Patience(attempts=1)), Terms(True, "crc32"))
        for act in (lambda: backend.put_if_absent(A, [b"x"]), lambda: backend.size(B)):
            with suppress(StoreError):
                act()
    for secret in (found.secret_key, found.session_token):
        assert secret not in caplog.text
