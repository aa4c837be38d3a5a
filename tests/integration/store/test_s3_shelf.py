"""The gates' store on S3 is a bucket of the real server, and nothing of it is anywhere else."""

from pathlib import Path

import pytest

from checkpoints_app.services import storage
from tests.store_kit import content
from tests.support.seaweed import S3Server
from tests.support.shelf import UNITS, Shelf
from tests.support.shelf_fixtures import S3, shelf, store
from tests.support.shelf_places import BucketPlace

__all__ = ["shelf", "store"]


@pytest.mark.parametrize("store", [S3], indirect=True)
def test_what_a_shelf_saves_is_at_the_server_alone(shelf: Shelf, store: BucketPlace, s3_server: S3Server, tmp_path: Path) -> None:
    shelf.save(shelf.session(), content(UNITS, 1))
    kept = store.keys()
    assert {name.split("/")[2] for name in kept} == {"key", "manifests", "packs"}
    assert kept == {listed.key for listed in storage.backend().list("")}
    assert s3_server.process.poll() is None
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
