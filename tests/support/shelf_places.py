"""Where a shelf's objects lie, and what a test does to them behind the product's back: a directory, or a location on a real S3 server."""

import os
import secrets
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from checkpoints_app.store.backends.local import path_of
from checkpoints_app.store.backends.s3 import S3Place
from checkpoints_app.store.backends.s3.place import make_client
from tests.support.seaweed import BUCKET, S3Server


@cache
def client_of(place: S3Place, user: str) -> Any:
    """A client costs a quarter of a second; one for each user of a place (without its location) lasts for a run."""
    return make_client(place)


class StorePlace(Protocol):
    @property
    def url(self) -> str:
        """As CHECKPOINT_STORE_URL names it."""

    def read(self, key: str) -> bytes:
        """The stored bytes."""

    def replace(self, key: str, stored: bytes) -> None:
        """Other bytes under the key, as a damaged disk or a stranger would leave them."""

    def remove(self, key: str) -> None: ...

    def keys(self) -> set[str]:
        """What the place itself shows, not what the product lists."""


@dataclass(frozen=True)
class DirectoryPlace:
    root: Path

    @property
    def url(self) -> str:
        return self.root.as_uri()

    def path(self, key: str) -> Path:
        return path_of(self.root, key)

    def read(self, key: str) -> bytes:
        return self.path(key).read_bytes()

    def replace(self, key: str, stored: bytes) -> None:
        self.path(key).write_bytes(stored)

    def remove(self, key: str) -> None:
        self.path(key).unlink()

    def shift_times(self, seconds: float) -> None:
        """As if the files had been written by a clock that is wrong by so much."""
        for path in self.root.rglob("*"):
            if path.is_file():
                at = path.stat().st_mtime + seconds
                os.utime(path, (at, at))

    def keys(self) -> set[str]:
        files = (path.relative_to(self.root / "objects") for path in (self.root / "objects").rglob("*") if path.is_file())
        return {(file.parent.parent / file.name).as_posix() for file in files}


@dataclass(frozen=True)
class BucketPlace:
    """Asked through a client of its own, so that what the product's client says can be compared with it."""

    server: S3Server
    location: str = field(default_factory=lambda: f"shelf-{secrets.token_hex(8)}")

    @property
    def client(self) -> Any:
        return client_of(self.server.place(), "test")

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/{self.location}?{urlencode({'endpoint': self.server.endpoint, 'region': 'us-east-1'})}"

    def _where(self, key: str) -> dict[str, str]:
        return {"Bucket": BUCKET, "Key": f"{self.location}/{key}"}

    def read(self, key: str) -> bytes:
        return bytes(self.client.get_object(**self._where(key))["Body"].read())

    def replace(self, key: str, stored: bytes) -> None:
        self.client.put_object(**self._where(key), Body=stored)

    def remove(self, key: str) -> None:
        self.client.delete_object(**self._where(key))

    def keys(self) -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.location}/")
        return {row["Key"].removeprefix(f"{self.location}/") for page in pages for row in page.get("Contents", [])}
