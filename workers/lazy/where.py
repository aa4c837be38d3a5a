"""Where the store is, as facts that one process tells another (workers/cache/store.py makes them), and the backend that reads there.

The facts hold the store's credentials where it has any: they travel in a plan and nowhere else.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkpoints_app.store.backends import Backend, LocalBackend
from workers.cache.caching import CachingBackend
from workers.cache.packs import PackCache


def opened(facts: Mapping[str, Any]) -> Backend:
    """For reading alone: an S3 server is not probed again, since whoever told us has done so. KeyError for facts that are none."""
    if facts["kind"] == "cached":
        return CachingBackend(opened(facts["store"]), PackCache(Path(facts["directory"])))
    if facts["kind"] == "local":
        return LocalBackend(facts["root"])
    from checkpoints_app.store.backends.s3 import Credentials, S3Backend, S3Place, Terms
    from checkpoints_app.store.backends.s3.bucket import connect

    place = dict(facts["place"])
    given = place.pop("credentials")
    bucket = connect(S3Place(**place, credentials=Credentials(**given) if given else None))
    return S3Backend(bucket, Terms(conditional=False, checksum="crc32"))
