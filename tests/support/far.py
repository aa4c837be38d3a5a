"""Another computer, as far as a network is concerned: a namespace of its own at the other end of a cable that can be cut or fall silent."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from workers.machine.process import libc
from workers.machine.process.threads import apart
from workers.relay import dial

T = TypeVar("T")

#: Of the block that is kept for documentation and benchmarks (RFC 5737): nobody's.
WEB_ADDRESS, HOST_ADDRESS = "192.0.2.1", "192.0.2.2"
_NOBODY = "02:00:00:00:00:99"


def obstacle() -> str | None:
    """What keeps this process from making one; None if nothing does."""
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    try:
        apart(lambda: libc.unshare(libc.CLONE_NEWNET))
    except OSError as error:
        return f"a network namespace cannot be made ({error})"
    return None


@dataclass(frozen=True)
class Computer:
    """Its namespace lasts as long as `namespace`, or a socket or thread within it, is open: nothing stays, whatever ends this process."""

    namespace: int
    device: str

    def do(self, act: Callable[[], T]) -> T:
        """In a thread of its own there; threads and sockets that `act` makes stay there."""

        def enter() -> T:
            libc.setns(self.namespace, libc.CLONE_NEWNET)
            return act()

        return apart(enter)

    def ip(self, *words: str) -> None:
        self.do(lambda: subprocess.run(["ip", *words], check=True, timeout=10))

    def is_at(self, address: str) -> None:
        self.ip("link", "set", "lo", "up")
        self.ip("address", "add", f"{address}/30", "dev", self.device)
        self.ip("link", "set", self.device, "up")

    def talks_to_nobody(self, peer: str) -> None:
        """What it sends to `peer` from now on reaches the other end of the cable, and is for nobody there: neither refused nor answered."""
        self.ip("neighbour", "replace", peer, "lladdr", _NOBODY, "nud", "permanent", "dev", self.device)


@dataclass(frozen=True)
class Network:
    web: Computer
    host: Computer

    def fall_silent(self) -> None:
        self.web.talks_to_nobody(HOST_ADDRESS)
        self.host.talks_to_nobody(WEB_ADDRESS)

    def be_cut(self) -> None:
        self.host.ip("link", "set", self.host.device, "down")

    def be_mended(self) -> None:
        """After either."""
        self.host.ip("link", "set", self.host.device, "up")
        for end in (self.web, self.host):
            end.ip("neighbour", "flush", "dev", end.device, "nud", "permanent")


@contextmanager
def network() -> Iterator[Network]:
    """Two computers and a cable. Prerequisite: no obstacle."""
    web, host = Computer(_fresh(), "web0"), Computer(_fresh(), "host0")
    try:
        peer = ("peer", "name", host.device, "netns", f"/proc/{os.getpid()}/fd/{host.namespace}")
        web.ip("link", "add", web.device, "type", "veth", *peer)
        web.is_at(WEB_ADDRESS)
        host.is_at(HOST_ADDRESS)
        yield Network(web, host)
    finally:
        os.close(web.namespace)
        os.close(host.namespace)


@contextmanager
def dialling_from(web: Computer) -> Iterator[None]:
    """The thread by which this process reaches relays of other computers is on that one."""
    dial._loop.cache_clear()
    loop = web.do(dial._loop)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(_end_all(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        dial._loop.cache_clear()


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _fresh() -> int:
    def make() -> int:
        libc.unshare(libc.CLONE_NEWNET)
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    return apart(make)
