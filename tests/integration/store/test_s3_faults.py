"""Each thing that goes wrong between us and an S3 server: asked again within bounds, then told by its type; nothing wrong is believed."""

from dataclasses import replace
from datetime import timedelta

import pytest
from botocore import auth

from checkpoints_app.store import NoSpaceError, ObjectExistsError, PermissionDeniedError, UnavailableError
from checkpoints_app.store.backends.backend import Listed
from checkpoints_app.store.backends.s3 import Bucket, Patience, S3Backend, Terms
from checkpoints_app.store.backends.s3.place import make_client
from tests.integration.store.conftest import ATTEMPTS
from tests.store_suite import A, B
from tests.support import s3_faults as faults
from tests.support.waiting import until

BODY = bytes(range(256)) * 400

ACTIONS = {
    "put": ("PUT", lambda backend: backend.put_if_absent(B, [BODY])),
    "read": ("GET", lambda backend: backend.read(A, 0, len(BODY))),
    "head": ("GET", lambda backend: backend.head(A, 100).object_bytes),
    "size": ("GET", lambda backend: backend.size(A)),
    "stream": ("GET", lambda backend: b"".join(backend.stream(A))),
    "list": ("GET", lambda backend: list(backend.list(""))),
    "delete": ("DELETE", lambda backend: backend.delete(A)),
}
RIGHT = {
    "put": len(BODY),
    "read": BODY,
    "head": len(BODY),
    "size": len(BODY),
    "stream": BODY,
    "list": [Listed(A, len(BODY))],
    "delete": True,
}
PASSING = {
    "500": faults.refuses(500, "InternalError"),
    "503 SlowDown": faults.refuses(503, "SlowDown"),
    "503 page": faults.refuses(503),
    "429": faults.refuses(429, "TooManyRequests"),
    "400 RequestTimeout": faults.refuses(400, "RequestTimeout"),
    "reset": faults.resets,
    "dropped": lambda exchange: exchange.drop(),
    "answer lost": faults.loses_the_answer,
}


@pytest.fixture
def filled(direct, behind):
    """`behind`, where A is stored."""
    direct.put_if_absent(A, [BODY])
    return behind


@pytest.mark.parametrize("trouble", PASSING)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_trouble_that_passes_costs_attempts_and_nothing_else(filled, proxy, pauses, action, trouble):
    method, act = ACTIONS[action]
    proxy.plan(PASSING[trouble], method, times=2)
    assert act(filled) == RIGHT[action]
    assert 0.1 <= pauses[0] <= 0.2
    assert len(pauses) == 2
    assert 0.2 <= pauses[1] <= 0.4


@pytest.mark.parametrize("trouble", PASSING)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_trouble_that_stays_is_an_error_after_a_bounded_number_of_attempts(filled, proxy, direct, pauses, action, trouble):
    method, act = ACTIONS[action]
    proxy.plan(PASSING[trouble], method)
    with pytest.raises(UnavailableError, match=f"tried {ATTEMPTS} times"):
        act(filled)
    assert len(pauses) == ATTEMPTS - 1
    gone = (action, trouble) == ("delete", "answer lost")  # but nobody has said that no version of it stays
    assert [listed.key for listed in direct.list("")] == ([] if gone else [A])


@pytest.mark.parametrize("action", ["read", "head", "stream"])
def test_a_body_that_is_cut_is_read_again_and_never_taken_for_whole(filled, proxy, action):
    method, act = ACTIONS[action]
    proxy.plan(faults.cuts_the_body, method, times=2)
    assert act(filled) == RIGHT[action]
    proxy.plan(faults.cuts_the_body, method)
    with pytest.raises(UnavailableError):
        act(filled)


def test_a_server_that_does_not_answer_is_left_after_its_time(s3_server, proxy, location):
    place = replace(s3_server.place(location, endpoint=proxy.endpoint), read_seconds=0.3)
    backend = S3Backend(Bucket(make_client(place), place.bucket, location, Patience(attempts=2, wait=lambda _: None)), Terms(True, "crc32"))
    proxy.plan(faults.hangs, "GET")
    with pytest.raises(UnavailableError, match="ReadTimeoutError"):
        backend.read(A, 0, 1)
    until(lambda: proxy.count("GET") == 2, 30, "both attempts have reached the server")


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (403, "AccessDenied", PermissionDeniedError),
        (403, "InvalidAccessKeyId", PermissionDeniedError),
        (400, "ExpiredToken", PermissionDeniedError),
        (401, "", PermissionDeniedError),
        (403, "QuotaExceeded", NoSpaceError),
        (507, "XMinioStorageFull", NoSpaceError),
        (403, "RequestTimeTooSkewed", UnavailableError),
        (404, "NoSuchBucket", UnavailableError),
        (404, "", UnavailableError),
        (400, "MalformedXML", UnavailableError),
    ],
)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_refusal_that_asking_again_does_not_change_is_told_at_once(filled, proxy, pauses, action, status, code, error):
    method, act = ACTIONS[action]
    proxy.plan(faults.refuses(status, code), method)
    with pytest.raises(error, match=code or str(status)):
        act(filled)
    assert pauses == []


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_an_hour_wrong_is_told_as_such(direct, monkeypatch, hours):
    clock = auth.get_current_datetime
    monkeypatch.setattr(auth, "get_current_datetime", lambda *arguments, **named: clock(*arguments, **named) + timedelta(hours=hours))
    with pytest.raises(UnavailableError, match="clock"):
        direct.put_if_absent(A, [BODY])


def test_a_put_that_nobody_answered_is_ours_when_it_turns_out_to_be_there(behind, proxy, direct):
    proxy.plan(faults.loses_the_answer, "PUT", times=1)
    assert behind.put_if_absent(A, [BODY]) == len(BODY)
    assert direct.read(A, 0, 1 << 20) == BODY


def test_a_put_that_something_in_between_sends_twice_is_ours(behind, proxy):
    proxy.plan(faults.sends_twice, "PUT")
    assert behind.put_if_absent(A, [BODY]) == len(BODY)


def test_a_put_that_nobody_answered_is_not_taken_for_another_writers_object(filled, proxy, direct):
    proxy.plan(faults.resets, "PUT", times=1)
    with pytest.raises(ObjectExistsError):
        filled.put_if_absent(A, [BODY])
    assert direct.size(A) == len(BODY)


def test_writers_of_one_moment_are_asked_to_come_again(behind, proxy, pauses):
    proxy.plan(faults.refuses(409, "ConditionalRequestConflict"), "PUT", times=2)
    assert behind.put_if_absent(A, [BODY]) == len(BODY)
    assert len(pauses) == 2


@pytest.mark.parametrize("checksum", ["crc32", "md5"])
def test_an_upload_that_is_damaged_on_its_way_is_sent_again_and_never_stored_so(open_at, proxy, direct, checksum):
    behind = open_at(proxy.endpoint, checksum=checksum)
    proxy.plan(faults.damages_the_upload, "PUT", times=1)
    behind.put_if_absent(A, [BODY])
    assert direct.read(A, 0, 1 << 20) == BODY
    proxy.plan(faults.damages_the_upload, "PUT")
    with pytest.raises(UnavailableError, match="BadDigest"):
        behind.put_if_absent(B, [BODY])
    assert [listed.key for listed in direct.list("")] == [A]


def test_a_put_in_doubt_is_taken_back_and_another_writers_object_is_not(filled, proxy, direct):
    batch = filled.batch()
    proxy.plan(faults.loses_the_answer, "PUT", part=B)
    with pytest.raises(UnavailableError):
        batch.put(B, [BODY])
    with pytest.raises(ObjectExistsError):
        batch.put(A, [b"other"])
    assert {listed.key for listed in direct.list("")} == {A, B}
    batch.discard()
    assert list(direct.list("")) == [Listed(A, len(BODY))]


def test_a_discard_that_the_server_does_not_answer_ends(behind, proxy, direct):
    batch = behind.batch()
    for number in range(20):
        batch.put(f"{A}{number}", [b"x"])
    proxy.plan(faults.refuses(503, "SlowDown"), "GET")
    before = proxy.count("GET")
    batch.discard()
    assert proxy.count("GET") - before == ATTEMPTS
    assert len(list(direct.list(""))) == 20


@pytest.mark.parametrize("action", ["read", "head", "size", "stream"])
def test_an_answer_about_another_range_is_refused(filled, proxy, action):
    method, act = ACTIONS[action]
    proxy.plan(faults.ignores_the_range, method)
    with pytest.raises(UnavailableError, match="range"):
        act(filled)


def test_a_range_that_is_wrongly_called_beyond_the_end_is_not_taken_for_an_end(filled, proxy):
    proxy.plan(faults.refuses(416, "InvalidRange"), "GET")
    with pytest.raises(UnavailableError, match="within the object"):
        filled.read(A, 10, 20)


def test_a_deletion_that_did_not_happen_is_no_success(filled, proxy, direct):
    proxy.plan(faults.ignores_the_body, "DELETE", times=1)
    assert filled.delete(A)
    direct.put_if_absent(A, [BODY])
    proxy.plan(faults.ignores_the_body, "DELETE")
    with pytest.raises(UnavailableError, match="still there"):
        filled.delete(A)


def test_a_server_that_is_not_there_is_told_without_its_address(open_at, s3_server, free_port):
    endpoint = f"http://127.0.0.1:{free_port}"
    with pytest.raises(UnavailableError) as caught:
        open_at(endpoint).size(A)
    assert str(free_port) not in str(caught.value)
    assert s3_server.credentials.secret_key not in repr(caught.value)
