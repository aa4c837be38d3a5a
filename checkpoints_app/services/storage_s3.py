"""The checkpoint store on S3, where the storage setting is django-storages' S3 storage: one client and one probe per process and place."""

import logging
import os
import threading
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from checkpoints_app.store import Backend

if TYPE_CHECKING:
    from checkpoints_app.store.backends.s3 import S3Place

log = logging.getLogger(__name__)
_opening = threading.Lock()
_patient = False

#: Where nobody may wait long, so neither for a single answer.
BRIEF_READ_SECONDS = 10.0


def be_patient() -> None:
    """This process does work that is better late than failed: a save or a resume that meets a store which is away for a minute. Others
    (requests, sweeps) fail after some seconds, for others wait behind them. Prerequisite: called before the store's first use.
    """
    global _patient  # noqa: PLW0603  a property of the process
    _patient = True


def backend(configured: Any) -> Backend:
    """TypeError for another kind of storage; StoreError if the server does not answer or is unfit."""
    place = place_of(configured)
    with _opening:  # or threads that begin together would each connect and probe
        return _opened(place)


def place_of(configured: Any) -> "S3Place":
    """What the storage's options say, AWS_* variables included where django-storages reads them."""
    from storages.backends.s3 import S3Storage

    from checkpoints_app.store.backends.s3 import Credentials, S3Place

    if not isinstance(configured, S3Storage):
        raise TypeError(f"no backend of the checkpoint store for {type(configured).__name__}")
    given = configured.access_key and configured.secret_key
    found = S3Place(
        bucket=configured.bucket_name,
        location=configured.location.strip("/"),
        endpoint=configured.endpoint_url,
        region=configured.region_name,
        addressing=configured.addressing_style or "auto",
        credentials=Credentials(configured.access_key, configured.secret_key, configured.security_token) if given else None,
    )
    return found if _patient else replace(found, read_seconds=BRIEF_READ_SECONDS, connect_seconds=BRIEF_READ_SECONDS / 2)


@cache
def _opened(place: "S3Place") -> Backend:
    from checkpoints_app.store.backends.s3 import BRIEF, open_backend

    found = open_backend(place, None if _patient else BRIEF)
    if not found.terms.conditional:
        log.warning("the S3 server does not honour If-None-Match: a key that two writers took would be noticed only by looking")
    return found


def _forget_after_fork() -> None:
    global _opening  # noqa: PLW0603  the parent's may have been held by a thread that the child does not have
    _opening = threading.Lock()
    _opened.cache_clear()


os.register_at_fork(after_in_child=_forget_after_fork)
