"""A real Redis of a test's own, on a unix socket."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.support.waiting import until


@contextmanager
def redis_server() -> Iterator[str]:
    """Its URL; it keeps nothing, and is gone afterwards."""
    binary = shutil.which("redis-server")
    assert binary is not None, "redis-server was not found: install the package redis-server"
    with tempfile.TemporaryDirectory(prefix="ks-redis-") as directory:
        url = f"unix://{Path(directory) / 'redis.sock'}"
        arguments = ["--port", "0", "--unixsocket", f"{directory}/redis.sock", "--save", "", "--dir", directory]
        process = subprocess.Popen([binary, *arguments], stdout=subprocess.DEVNULL)
        try:
            until(lambda: _answers(url), 20, "redis-server answers")
            yield url
        finally:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with redis.Redis.from_url(url) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
