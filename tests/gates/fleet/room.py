"""A room whose stack is a fleet: a front (web, beat, control), several hosts, and servers that no supervisor brings back.

The front is `up --hosts 0`, each host `host --id`: processes of their own, so that a host can be lost whole. All of it is on one machine
and below one root, with what hosts have of their own below `host/<id>`.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from keepstate_site.client import Client
from keepstate_site.stack.child import die_with_parent
from keepstate_site.stack.client import running
from keepstate_site.stack.paths import PROJECT
from tests.gates.fleet import processes
from tests.gates.fleet.host import HostProcess
from tests.gates.fleet.mounts import unmount_below
from tests.gates.fleet.servers import Postgres, Redis, servers
from tests.gates.gateway.beside import provider
from tests.gates.room import PROVIDERS, Room, stack_environment
from tests.support.networks import remove_networks
from tests.support.seaweed import BUCKET, S3Server, seaweed
from tests.support.waiting import until

#: Beside those of every room: a host is silent, and lost, after so few seconds that a gate need not wait.
SHORT = {"KEEPSTATE_SWEEP_SECONDS": "1", "KEEPSTATE_HOST_SILENT_SECONDS": "3", "KEEPSTATE_HOST_LOST_SECONDS": "5"}
_BEATS_SECONDS = 90


@dataclass(frozen=True)
class FrontProcess:
    """The web process, beat or the control worker: its supervisor starts it again, so that an outage is a pause."""

    root: Path
    words: tuple[str, ...]

    def pids(self) -> list[int]:
        return [pid for pid in processes.of_stack(self.root) if set(self.words) <= set(processes.words(pid))]

    def kill(self) -> int:
        """How many processes it was."""
        before = self.pids()
        return processes.kill_all(lambda: [pid for pid in self.pids() if pid in before])

    def pause(self) -> None:
        processes.stop_all(self.pids)

    def resume(self) -> None:
        processes.continue_all(self.pids)


@dataclass(kw_only=True)
class FleetRoom(Room):
    hosts: Mapping[str, HostProcess]
    postgres: Postgres
    redis: Redis
    environment: Mapping[str, str]
    s3: S3Server | None

    @property
    def web(self) -> FrontProcess:
        return FrontProcess(self.root, ("keepstate_site.serve",))

    @property
    def beat(self) -> FrontProcess:
        return FrontProcess(self.root, ("celery", "beat"))

    @property
    def control(self) -> FrontProcess:
        return FrontProcess(self.root, ("run_worker", "control"))

    @contextmanager
    def second_beat(self) -> Iterator[None]:
        """Another beat beside the first, with a schedule of its own."""
        marker = self.root / "run" / "second-beat.ready"
        arguments = ["-A", "keepstate_site", "beat", "--schedule", str(self.root / "run" / "second-beat"), "--pidfile", ""]
        env = {**self.environment, "KEEPSTATE_VAR": str(self.root), "KEEPSTATE_ROLE": "worker", "KEEPSTATE_READY_MARKER": str(marker)}
        with (self.root / "log" / "second-beat.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", *arguments],
                cwd=PROJECT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        try:
            until(lambda: marker.exists() or process.poll() is not None, _BEATS_SECONDS, "the second beat beats")
            assert process.poll() is None
            yield
        finally:
            process.kill()
            process.wait()
            marker.unlink(missing_ok=True)


@contextmanager
def fleet(
    root: Path,
    hosts: Sequence[str] = ("h-1", "h-2", "h-3"),
    switch: Path | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    s3: bool = False,
) -> Iterator[FleetRoom]:
    """A fleet below `root`, all of whose hosts take work. `switch` as in a room; `s3`: its store is on a real S3 server, else a directory.

    Call it from the main thread. At its end everything that was started below `root` is gone, whatever the test did to it.
    """
    var = root / "var"
    with ExitStack() as opened:
        opened.callback(_clear, root)
        beside = opened.enter_context(provider())
        postgres, redis = opened.enter_context(servers(root / "servers"))
        env = {**os.environ, **stack_environment(root, switch), **SHORT, **dict.fromkeys(PROVIDERS, beside.url)}
        env |= {"DATABASE_URL": postgres.url, "REDIS_URL": redis.url, "CHECKPOINT_STORE_URL": (var / "store").as_uri()}
        env |= environment or {}
        server = None
        if s3:
            (root / "s3").mkdir()
            server = opened.enter_context(seaweed(root / "s3"))
            env |= store_on(server)
        front = opened.enter_context(running(var, env=env, hosts=0))
        opened.callback(_end, var)
        there = _take_work({name: HostProcess(name, front.root, env) for name in hosts})
        client = Client(front.url, front.token, poll_share=0.25)
        places = (front.root, root / "crash", root / "bin")
        yield FleetRoom(client, *places, beside, switch, hosts=there, postgres=postgres, redis=redis, environment=env, s3=server)


def _take_work(hosts: dict[str, HostProcess]) -> dict[str, HostProcess]:
    """They start beside each other."""
    for host in hosts.values():
        host.start(wait=False)
    for host in hosts.values():
        host.ready()
    return hosts


def store_on(server: S3Server) -> dict[str, str]:
    return {
        "CHECKPOINT_STORE_URL": f"s3://{BUCKET}?endpoint={server.endpoint}&addressing=path",
        "AWS_ACCESS_KEY_ID": server.credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": server.credentials.secret_key,
    }


def _end(var: Path) -> None:
    """At once: nothing of it is wanted any more, and its servers may be away."""
    processes.kill_all(lambda: processes.of_stack(var))


def _clear(root: Path) -> None:
    remove_networks(root)
    unmount_below(root)
