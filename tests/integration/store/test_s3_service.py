"""The configured store: from CHECKPOINT_STORE_URL to a backend that was probed once."""

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest
from pytest_django.fixtures import Settings

from checkpoints_app.services import storage, storage_s3
from checkpoints_app.store import StoreError, UnavailableError
from checkpoints_app.store.backends.s3 import Patience
from keepstate_site.settings.store import checkpoint_storage
from tests.support import s3_faults as faults
from tests.support.s3_proxy import FaultProxy
from tests.support.seaweed import BUCKET, S3Server

KEY = "accounts/one/packs/aa"


def forget() -> None:
    storage.backend.cache_clear()
    storage_s3._opened.cache_clear()


@pytest.fixture
def credentials(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.credentials.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.credentials.secret_key)


@pytest.fixture
def configured(settings: Settings, proxy: FaultProxy, location: str, credentials: None, tmp_path: Path) -> Iterator[None]:
    """The settings as the URL makes them, with credentials from the environment."""
    url = f"s3://{BUCKET}/{location}?{urlencode({'endpoint': proxy.endpoint, 'region': 'us-east-1'})}"
    settings.STORAGES = {**settings.STORAGES, "checkpoints": checkpoint_storage(url, tmp_path / "none")}
    forget()
    yield
    forget()


def test_the_url_leads_to_the_bucket_and_prefix_that_it_names(configured, direct):
    storage.backend().put_if_absent(KEY, [b"x"])
    assert [listed.key for listed in direct.list("")] == [KEY]


def test_threads_that_begin_together_share_one_backend_and_one_probe(configured, proxy):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: storage.backend(), range(8)))
    assert len({id(backend) for backend in found}) == 1
    assert sum("versioning" in request.path for request in proxy.requests) == 1


def test_a_server_that_did_not_answer_is_asked_again_at_the_next_use(configured, proxy):
    proxy.plan(faults.refuses(404, "NoSuchBucket"), "GET", times=1)
    with pytest.raises(UnavailableError):
        storage.backend()
    storage.backend().put_if_absent(KEY, [b"x"])


def test_a_server_without_conditions_is_used_and_told_of(configured, proxy, caplog):
    proxy.plan(faults.ignores_the_condition, "PUT")
    with caplog.at_level(logging.WARNING):
        storage.backend().put_if_absent(KEY, [b"x"])
    assert "If-None-Match" in caplog.text


def test_a_forked_process_makes_its_own_connections(configured):
    backend = storage.backend()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, b"own" if storage.backend() is not backend else b"shared")
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as answer:
        assert answer.read() == b"own"


def test_credentials_come_from_their_file_where_the_environment_has_none(s3_server, location, settings, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    file = tmp_path / "s3_credentials"
    found = s3_server.credentials
    file.write_text(f"[default]\naws_access_key_id = {found.access_key}\naws_secret_access_key = {found.secret_key}\n")
    file.chmod(0o600)
    url = f"s3://{BUCKET}/{location}?endpoint={s3_server.endpoint}"
    settings.STORAGES = {**settings.STORAGES, "checkpoints": checkpoint_storage(url, file)}
    forget()
    storage.backend().put_if_absent(KEY, [b"x"])
    forget()


@pytest.mark.parametrize("wrong", ["location", "bucket", "key"])
def test_no_error_and_no_log_line_holds_a_secret(configured, settings, s3_server, wrong, caplog, monkeypatch):
    monkeypatch.setattr("checkpoints_app.store.backends.s3.BRIEF", Patience(seconds=0.5))
    options = settings.STORAGES["checkpoints"]["OPTIONS"]
    changed = {
        "location": {"endpoint_url": "http://127.0.0.1:9"},
        "bucket": {"bucket_name": "no-such-bucket"},
        "key": {"secret_key": "s3cret-s3cret"},
    }
    settings.STORAGES = {**settings.STORAGES, "checkpoints": {**settings.STORAGES["checkpoints"], "OPTIONS": {**options, **changed[wrong]}}}
    with caplog.at_level(logging.INFO), pytest.raises(StoreError) as caught:
        storage.backend()
    for secret in (s3_server.credentials.secret_key, "s3cret-s3cret"):
        assert secret not in caplog.text + str(caught.value) + repr(caught.value.__cause__)
