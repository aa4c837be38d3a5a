"""The probe: a fit server is taken, an unfit one is refused by the name of what it does, and nothing stays behind."""

from dataclasses import replace

import pytest

from checkpoints_app.store import PermissionDeniedError, UnavailableError
from checkpoints_app.store.backends.s3 import Patience, Terms, UnfitServerError, open_backend, probe
from tests.support import s3_faults as faults
from tests.support.seaweed import VERSIONED

QUICK = Patience(attempts=3, wait=lambda _: None)


def test_a_fit_server_is_taken_with_its_conditions_and_keeps_nothing_of_the_probe(s3_server, location):
    backend = open_backend(s3_server.place(location), QUICK)
    assert backend.terms == Terms(conditional=True, checksum="crc32")
    assert list(backend.list("")) == []


@pytest.mark.parametrize("fault", [faults.ignores_the_condition, faults.refuses_conditions])
def test_a_server_that_takes_no_conditions_is_found_out(behind, proxy, direct, fault):
    proxy.plan(fault, "PUT")
    assert not probe(behind.bucket).conditional
    assert list(direct.list("")) == []


def test_a_server_that_lets_every_racer_win_is_found_out(behind, proxy):
    proxy.plan(faults.ignores_the_condition, "PUT", part="-race")
    assert not probe(behind.bucket).conditional


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (faults.stores_trailers, "checksum trailers inside the objects"),
        (lambda body: body + b"\n", "other bytes"),
        (lambda body: bytes([body[0] ^ 1]) + body[1:], "other bytes"),
        (lambda body: body[:-1], "other bytes"),
    ],
)
def test_a_server_that_stores_other_bytes_is_refused_by_name(behind, proxy, direct, change, text):
    proxy.plan(faults.stores(change), "PUT")
    with pytest.raises(UnfitServerError, match=text):
        probe(behind.bucket)
    assert list(direct.list("")) == []


def test_a_server_that_looks_at_one_checksum_alone_is_given_that(behind, proxy):
    proxy.plan(lambda exchange: exchange.give(exchange.forward(exchange.without("x-amz-checksum-crc32"))), "PUT")
    assert probe(behind.bucket).checksum == "md5"


def test_a_server_that_would_store_damaged_uploads_is_refused(behind, proxy, direct):
    proxy.plan(lambda exchange: exchange.give(exchange.forward(exchange.without("x-amz-checksum-crc32", "content-md5"))), "PUT")
    with pytest.raises(UnfitServerError, match="damaged on its way"):
        probe(behind.bucket)
    assert list(direct.list("")) == []


def test_a_server_that_drops_what_an_object_is_put_with_is_refused(behind, proxy):
    proxy.plan(lambda exchange: exchange.give(exchange.forward(exchange.without("x-amz-meta-ks-put"))), "PUT")
    with pytest.raises(UnfitServerError, match="metadata"):
        probe(behind.bucket)


def test_a_bucket_that_keeps_versions_is_refused(s3_server, location):
    with pytest.raises(UnfitServerError, match="versions"):
        open_backend(s3_server.place(location, bucket=VERSIONED), QUICK)


def test_a_bucket_that_keeps_versions_is_refused_where_its_setting_may_not_be_read(s3_server, proxy, location):
    proxy.plan(faults.refuses(403, "AccessDenied"), "GET", part="?versioning")
    with pytest.raises(UnfitServerError, match="versions"):
        open_backend(s3_server.place(location, bucket=VERSIONED, endpoint=proxy.endpoint), QUICK)


def test_a_deletion_that_leaves_a_version_is_no_success(s3_server, direct):
    bucket = replace(direct.bucket, name=VERSIONED)
    backend = type(direct)(bucket, direct.terms)
    backend.put_if_absent("accounts/one/packs/aa", [b"x"])
    with pytest.raises(UnavailableError, match="keeps versions"):
        backend.delete("accounts/one/packs/aa")


def test_a_listing_that_does_not_show_what_was_put_is_refused(behind, proxy):
    def forget(answer):
        start, end = answer.body.find(b"<Contents>"), answer.body.rfind(b"</Contents>")
        body = answer.body[:start] + answer.body[end + len(b"</Contents>") :] if start >= 0 else answer.body
        return replace(answer, body=body.replace(b"<KeyCount>1<", b"<KeyCount>0<"))

    proxy.plan(faults.answers_changed(forget), "GET", part="list-type=2")
    with pytest.raises(UnfitServerError, match="does not list"):
        probe(behind.bucket)


def test_wrong_credentials_are_told_as_such_and_not_repeated(s3_server, location):
    wrong = replace(s3_server.credentials, secret_key="not-the-secret")
    with pytest.raises(PermissionDeniedError, match="credentials") as caught:
        open_backend(replace(s3_server.place(location), credentials=wrong), QUICK)
    assert "not-the-secret" not in str(caught.value)


def test_a_bucket_that_does_not_exist_is_not_taken_for_an_empty_one(s3_server, location):
    with pytest.raises(UnavailableError, match="NoSuchBucket"):
        open_backend(s3_server.place(location, bucket="no-such-bucket"), QUICK)
