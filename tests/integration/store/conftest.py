"""An S3 server behind a proxy that misbehaves as planned, and backends over both. Waits are noted, not waited."""

import secrets
import socket
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from checkpoints_app.store.backends.s3 import Bucket, Patience, S3Backend, Terms
from checkpoints_app.store.backends.s3.place import make_client
from checkpoints_app.store.backends.s3.writes import Checksum
from tests.support.s3_proxy import FaultProxy, fault_proxy
from tests.support.seaweed import S3Server

ATTEMPTS = 4


@pytest.fixture(scope="session")
def session_proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3_server) as running:
        yield running


@pytest.fixture
def proxy(session_proxy: FaultProxy) -> Iterator[FaultProxy]:
    session_proxy.heal()
    yield session_proxy
    session_proxy.heal()


@pytest.fixture
def location() -> str:
    return f"test-{secrets.token_hex(8)}"


@pytest.fixture
def pauses() -> list[float]:
    """What the backends of this test would have waited between attempts, in seconds."""
    return []


@pytest.fixture(scope="session")
def clients(s3_server: S3Server) -> Callable[[str], object]:
    """One client per endpoint, as in a process of the product."""
    return cache(lambda endpoint: make_client(s3_server.place(endpoint=endpoint)))


@pytest.fixture
def open_at(s3_server: S3Server, clients: Callable[[str], object], location: str, pauses: list[float]) -> Callable[..., S3Backend]:
    """A backend of this test's location through an endpoint."""

    def opened(endpoint: str, *, conditional: bool = True, checksum: Checksum = "crc32") -> S3Backend:
        patience = Patience(attempts=ATTEMPTS, wait=pauses.append)
        return S3Backend(Bucket(clients(endpoint), s3_server.place().bucket, location, patience), Terms(conditional, checksum))

    return opened


@pytest.fixture
def direct(s3_server: S3Server, open_at: Callable[..., S3Backend]) -> S3Backend:
    return open_at(s3_server.endpoint)


@pytest.fixture
def behind(proxy: FaultProxy, open_at: Callable[..., S3Backend]) -> S3Backend:
    """Behind the proxy, over the same objects as `direct`."""
    return open_at(proxy.endpoint)


@pytest.fixture
def free_port() -> Iterator[int]:
    """Where nothing listens, and nobody else will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
