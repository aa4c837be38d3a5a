"""A real S3 server for tests and benchmarks: SeaweedFS in one process on loopback, with ports, memory and disk of its own."""

import ctypes
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from checkpoints_app.store.backends.s3 import Credentials, S3Place
from checkpoints_app.store.backends.s3.place import make_client
from tests.support.waiting import until

BUCKET, VERSIONED = "kept-work", "kept-versions"
READY_SECONDS = 60
STOP_SECONDS = 60
VOLUME_MIB = 64
STARTS = 3  # a port that was free a moment ago may be taken
_PORTS = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@dataclass(eq=False)
class S3Server:
    endpoint: str
    process: "subprocess.Popen[bytes]"
    credentials: Credentials = field(repr=False)
    again: Callable[[], "subprocess.Popen[bytes]"] = field(repr=False)  # the same server on the same data

    def stop(self) -> None:
        """In order: what it holds is written."""
        self.process.terminate()
        self.process.wait(STOP_SECONDS)

    def kill(self) -> None:
        """As when it crashes: what it has acknowledged is in its files, and there after a start."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    @property
    def is_up(self) -> bool:
        return self.process.poll() is None

    def start(self, *, wait: bool = True) -> None:
        """From the main thread, after a stop: it has what it had, at the same address. Returns once it answers, or at once."""
        self.process = self.again()
        if not wait:
            return
        until(partial(_settled, self), READY_SECONDS, "SeaweedFS answers or ends")
        assert self.process.poll() is None, "SeaweedFS did not start again"

    def place(self, location: str = "", *, bucket: str = BUCKET, endpoint: str | None = None) -> S3Place:
        where = endpoint or self.endpoint
        return S3Place(bucket, location, where, addressing="path", credentials=self.credentials, connect_seconds=5, read_seconds=20)


@contextmanager
def seaweed(directory: Path, *, disk_mib: int = 2048, memory_mib: int = 512) -> Iterator[S3Server]:
    """Two empty buckets, one of which keeps versions. Stopped by its pid at the end; the kernel stops it if we die before."""
    credentials = Credentials(secrets.token_hex(10), secrets.token_hex(20))
    identity = {"accessKey": credentials.access_key, "secretKey": credentials.secret_key}
    config = directory / "s3.json"
    config.write_text(
        json.dumps({"identities": [{"name": "keeper", "credentials": [identity], "actions": ["Admin", "Read", "Write", "List"]}]})
    )
    server = _started(directory, config, credentials, disk_mib, memory_mib)
    try:
        client = make_client(server.place())
        client.create_bucket(Bucket=BUCKET)
        client.create_bucket(Bucket=VERSIONED)
        client.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
        yield server
    finally:
        server.process.kill()  # its data goes with it, so it need not end well
        server.process.wait(10)


def _started(directory: Path, config: Path, credentials: Credentials, disk_mib: int, memory_mib: int) -> S3Server:
    for number in range(STARTS):
        ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        log = directory / f"log-{number}"
        spawn = partial(_spawn, directory, _options(directory, config, ports, disk_mib), log, memory_mib)
        server = S3Server(f"http://127.0.0.1:{ports['s3.port']}", spawn(), credentials, spawn)
        until(partial(_settled, server), READY_SECONDS, "SeaweedFS answers or ends")
        if server.process.poll() is None:
            return server
    raise AssertionError(f"SeaweedFS did not start: {log.read_text()[-2000:]}")


def _options(directory: Path, config: Path, ports: dict[str, int], disk_mib: int) -> dict[str, object]:
    data = directory / "data"
    data.mkdir(exist_ok=True)
    return {
        **ports,
        "dir": data,
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "filer": "true",
        "s3": "true",
        "s3.config": config,
        "s3.iam": "false",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "master.telemetry": "false",
        "master.electionTimeout": "1s",  # it waits up to twice as long until it elects itself, at each start but the first: by default 20 s
        "master.volumeSizeLimitMB": VOLUME_MIB,
        "volume.max": disk_mib // VOLUME_MIB,
        "volume.minFreeSpace": 1,
    }


def _spawn(directory: Path, options: dict[str, object], log: Path, memory_mib: int) -> "subprocess.Popen[bytes]":
    environment = {
        "PATH": os.defpath,
        "HOME": str(directory),
        "GOMEMLIMIT": f"{memory_mib}MiB",
        "GOMAXPROCS": "2",
        "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1",  # volumes made at once; the default of 7 per bucket would take the disk's bound
    }
    weed = Path(sys.executable).with_name("weed")
    with log.open("ab") as output:
        return subprocess.Popen(
            [weed, "-logtostderr=true", "server", *(f"-{name}={value}" for name, value in options.items())],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        )


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _settled(server: S3Server) -> bool:
    """It has ended, or serves."""
    if server.process.poll() is not None:
        return True
    try:
        make_client(server.place()).list_buckets()
    except (BotoCoreError, ClientError):
        return False
    return True
