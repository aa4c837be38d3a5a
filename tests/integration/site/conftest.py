from collections.abc import Iterator

import pytest

from tests.support.fixtures import api, doorbells, owner, stranger
from tests.support.redis_server import redis_server

__all__ = ["api", "doorbells", "owner", "redis_url", "stranger"]


@pytest.fixture(scope="package")
def redis_url() -> Iterator[str]:
    with redis_server() as url:
        yield url
