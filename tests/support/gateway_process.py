"""The gateway and the fake provider as processes of their own, without machines: one channel on loopback.

`python -m tests.support.gateway_process FD ACCOUNT SESSION EPOCH` serves the channel on a socket that it inherits, until it is told to end.
Prerequisites: Django's settings, a database with that session in it, and KEEPSTATE_*_URL that name the provider.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
READY_SECONDS = 120.0
_DRAIN_SECONDS = 5.0


@dataclass(frozen=True)
class Running:
    url: str
    pid: int


@contextmanager
def fake_provider(log: Path) -> Iterator[Running]:
    port = free_port()
    argv = [sys.executable, "-m", "keepstate_site.provider", "--port", str(port)]
    with running(argv, f"http://127.0.0.1:{port}", log, "/fake/bill", {}) as one:
        yield one


@contextmanager
def gateway_of(account: str, session: str, provider: str, log: Path) -> Iterator[Running]:
    """A gateway whose providers are all at `provider`; its URL is the session's channel, in its first epoch."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        argv = [sys.executable, "-m", "tests.support.gateway_process", str(listening.fileno()), account, session, "1"]
        urls = {f"KEEPSTATE_{name}_URL": provider for name in ("ANTHROPIC", "OPENAI", "GEMINI")}
        with running(argv, url, log, "/", urls, [listening.fileno()]) as one:
            yield one


@contextmanager
def running(
    argv: Sequence[str], url: str, log: Path, ready: str, environment: Mapping[str, str], pass_fds: Sequence[int] = ()
) -> Iterator[Running]:
    """A program that serves, once it answers on the path `ready`. RuntimeError, with what it said, if it does not.

    What is empty in `environment` is not set.
    """
    given = {name: value for name, value in {**os.environ, **environment}.items() if value}
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(argv), cwd=PROJECT, env=given, pass_fds=tuple(pass_fds), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        _await(url + ready, process, log)
        yield Running(url, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not answer:\n{log.read_text()[-3000:]}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


async def serve(listening: socket.socket, account: str, session: str, epoch: int) -> None:
    from gateway_app.proxy.channel import Channel
    from gateway_app.proxy.server import gateway, listen
    from gateway_app.proxy.settings import proxy_settings

    ended = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, ended.set)
    async with gateway(proxy_settings(), drain_seconds=_DRAIN_SECONDS) as one:
        door = await listen(one, Channel(account, session, epoch, frozenset({session})), listening)
        await ended.wait()
        await door.close()


def main(argv: Sequence[str]) -> None:
    import django
    import uvloop

    django.setup()
    descriptor, account, session, epoch = argv
    uvloop.run(serve(socket.socket(fileno=int(descriptor)), account, session, int(epoch)))


if __name__ == "__main__":
    main(sys.argv[1:])
