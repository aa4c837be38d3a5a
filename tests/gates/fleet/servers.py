"""PostgreSQL and Redis of a fleet's own, under no supervisor: an outage lasts until the test ends it."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import redis

from keepstate_site.stack import home, postgres, redis_server
from keepstate_site.stack.child import Spec, die_with_parent
from keepstate_site.stack.home import Home
from keepstate_site.stack.paths import prepare
from tests.support.waiting import until

GONE_SECONDS = 60


@dataclass
class Server:
    home: Home
    spec: Spec
    log: Path
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    def start(self) -> None:
        """From the main thread; returns once it answers. What it held when it stopped or was killed is there."""
        assert self.process is None or self.process.poll() is not None, f"{self.spec.name} runs already"
        user = self.spec.user
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(self.spec.argv),
                env=dict(self.spec.env),
                cwd=self.spec.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent(self.spec.death_signal),
                user=user.uid if user else None,
                group=user.gid if user else None,
                extra_groups=[] if user else None,
            )
        running = self.process
        until(lambda: running.poll() is not None or self.spec.ready(), self.spec.ready_seconds, f"{self.spec.name} answers")
        assert running.poll() is None, self.log.read_text()[-2000:]

    def stop(self) -> None:
        """In order, as by its operator."""
        self._end(self.spec.stop_signal)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """It keeps its connections and answers nobody."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(GONE_SECONDS)


@dataclass
class Redis(Server):
    @property
    def url(self) -> str:
        return self.home.redis_url

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def flush(self) -> None:
        """Every doorbell is lost."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


@dataclass
class Postgres(Server):
    @property
    def url(self) -> str:
        return self.home.database_url

    def connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(self.url, autocommit=True)

    def rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """What a test may look at beside the API."""
        with self.connect() as connection:
            return connection.execute(query.encode(), values).fetchall()

    def kill(self) -> None:
        """As when the server crashes: nothing is written or said any more, and a start recovers."""
        self._end(signal.SIGQUIT)

    def cut_connections(self) -> int:
        """Every connection but ours ends in the middle of whatever it does. How many they were."""
        mine = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        return len(self.rows(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}"))


@contextmanager
def servers(root: Path) -> Iterator[tuple[Postgres, Redis]]:
    """Both, answering; gone at the end, whatever the test did to them. What a loss of power would take is not written for it."""
    paths = prepare(root)
    where = home.locate(paths, home.service_user())
    home.make(where, paths)
    database = Postgres(where, postgres.spec(where, lasting=False), paths.logs / "postgres.log")
    broker = Redis(where, redis_server.spec(where), paths.logs / "redis.log")
    both = (database, broker)
    try:
        for server in both:
            server.start()
        yield both
    finally:
        for server in both:
            if server.process is not None:
                server.resume()
                server.stop()
