"""A bucket as the other files of this folder ask it: the client, what keys begin with, and how long to try."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ..backend import check_key
from .connections import leave_idle
from .place import Client, S3Place, make_client
from .retry import Patience, attempt

T = TypeVar("T")


@dataclass(frozen=True)
class Bucket:
    client: Client = field(repr=False)
    name: str
    location: str
    patience: Patience

    @property
    def prefix(self) -> str:
        return f"{self.location}/" if self.location else ""

    def where(self, key: str) -> dict[str, str]:
        """The object as the client's methods name it."""
        return {"Bucket": self.name, "Key": self.prefix + check_key(key)}

    def attempt(self, key: str, action: Callable[[], T]) -> T:
        return attempt(self.patience, key, action, lambda: leave_idle(self.client))


def connect(place: S3Place, patience: Patience | None = None) -> Bucket:
    """Makes no request. ValueError for a location that is no key."""
    if place.location:
        check_key(place.location)
    return Bucket(make_client(place), place.bucket, place.location, patience or Patience())
