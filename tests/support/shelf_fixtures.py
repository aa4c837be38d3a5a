"""An empty store and a database for each test; packs are small, so that a checkpoint of a few units has several.

The store is a directory, unless a test says otherwise: with `@on_both`, or with `parametrize(("store", "step"), on_each(...),
indirect=["store"])`, it runs on a location of its own on a real S3 server too.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from checkpoints_app.services import storage, storage_s3
from checkpoints_app.store import packer
from checkpoints_app.store.backends.s3 import S3Backend, bucket
from keepstate_site.settings.store import checkpoint_storage
from tests.support import fleet
from tests.support.seaweed import S3Server
from tests.support.shelf import PACK_UNITS, Shelf
from tests.support.shelf_places import BucketPlace, DirectoryPlace, StorePlace, client_of
from tests.support.sparse import sparse

LOCAL, S3 = "local", "s3"
on_both = pytest.mark.parametrize("store", [LOCAL, S3], indirect=True)


def on_each(local: Iterable[Any], s3: Iterable[Any]) -> list[Any]:
    """What each backend's tests are given, behind `store`. A server's are slow: the suite takes the first."""
    given = {kind: [(kind, *(one if isinstance(one, tuple) else (one,))) for one in chosen] for kind, chosen in ((LOCAL, local), (S3, s3))}
    return [*given[LOCAL], *sparse(given[S3], 100)]


def storages_at(place: StorePlace) -> dict[str, Any]:
    """The setting as CHECKPOINT_STORE_URL makes it; credentials come from the environment."""
    return {**settings.STORAGES, "checkpoints": checkpoint_storage(place.url, Path("/no/such/file"))}


@contextmanager
def configured(place: StorePlace) -> Iterator[None]:
    with override_settings(STORAGES=storages_at(place)):
        forget_backends()
        yield
    forget_backends()


def forget_backends() -> None:
    storage.backend.cache_clear()
    storage_s3._opened.cache_clear()


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StorePlace]:
    """Configured, also for the processes that the test starts. At the end it was really used."""
    in_bucket = getattr(request, "param", LOCAL) == S3
    place: StorePlace = DirectoryPlace(tmp_path / "store")
    if in_bucket:
        place = bucket_place(request.getfixturevalue("s3_server"), monkeypatch)
    monkeypatch.setenv("CHECKPOINT_STORE_URL", place.url)
    monkeypatch.setattr(packer, "PACK_UNITS", PACK_UNITS)
    with configured(place), answers_counted() if in_bucket else nullcontext([True]) as answers:
        yield place
    assert answers, "the S3 server was never asked"


def bucket_place(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> BucketPlace:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.credentials.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.credentials.secret_key)
    monkeypatch.setattr(bucket, "make_client", lambda place: client_of(replace(place, location=""), "product"))
    return BucketPlace(server)


@contextmanager
def answers_counted() -> Iterator[list[object]]:
    """A list that grows by each answer of the server to the configured backend, its probe left out."""
    backend, answers = storage.backend(), list[object]()
    assert isinstance(backend, S3Backend)
    events = backend.bucket.client.meta.events

    def answered(response_dict: object, **_: object) -> None:
        answers.append(response_dict)

    events.register("response-received.s3", answered)
    try:
        yield answers
    finally:
        events.unregister("response-received.s3", answered)


@pytest.fixture
def shelf(store: StorePlace, transactional_db: None) -> Shelf:
    return Shelf(fleet.tenant().account)
