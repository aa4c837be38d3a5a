"""A real Redis of a test's own, on a unix socket, which can be paused, filled, stopped and started."""

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.support.waiting import until


class RedisServer:
    """It keeps nothing. `pause`: connections are made and hang."""

    def __init__(self, directory: Path):
        self.url = f"unix://{directory / 'redis.sock'}"
        self._arguments = ["--port", "0", "--unixsocket", f"{directory}/redis.sock", "--save", "", "--dir", str(directory)]
        self.start()

    def start(self) -> None:
        binary = shutil.which("redis-server")
        assert binary is not None, "redis-server was not found: install the package redis-server"
        self._process = subprocess.Popen([binary, *self._arguments], stdout=subprocess.DEVNULL)
        until(self._answers, 20, "redis-server answers")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def fill(self) -> None:
        """Whatever would need more memory is refused from now on."""
        with redis.Redis.from_url(self.url) as client:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", 1)

    def messages(self, queue: str) -> list[dict[str, Any]]:
        """Those that nobody has read yet, as the broker keeps them."""
        with redis.Redis.from_url(self.url) as client:
            return [json.loads(one) for one in client.lrange(queue, 0, -1)]

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


@contextmanager
def own_redis() -> Iterator[RedisServer]:
    """Gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ks-redis-") as directory:
        server = RedisServer(Path(directory))
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def redis_server() -> Iterator[str]:
    """Its URL."""
    with own_redis() as server:
        yield server.url
