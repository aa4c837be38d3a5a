"""Connections that are lost without a word cost a read a short wait, once; a server that is only slow is waited for all the same."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from checkpoints_app.store.backends.s3 import Bucket, Patience, S3Backend, Terms
from checkpoints_app.store.backends.s3.place import make_client
from tests.integration.store.test_s3_faults import ACTIONS, BODY, RIGHT
from tests.store_suite import A, B
from tests.support import s3_faults as faults
from tests.support.lossy_line import LossyLine, lossy_line

BRIEFLY = 0.2
#: No attempt begins later than so many seconds after the first, so that who waits as long as for any other answer fails.
PATIENCE, OTHERS_WAIT = 8.0, 12.0


@pytest.fixture
def line(s3_server) -> Iterator[LossyLine]:
    with lossy_line(s3_server.endpoint) as running:
        yield running


@pytest.fixture
def over(s3_server, location, pauses):
    def made(endpoint: str, *, attempts: int = 2, **seconds: float) -> S3Backend:
        times = {"first_read_seconds": BRIEFLY, "read_seconds": OTHERS_WAIT, **seconds}
        place = replace(s3_server.place(location, endpoint=endpoint), **times)
        patience = Patience(attempts=attempts, seconds=PATIENCE, wait=pauses.append)
        return S3Backend(Bucket(make_client(place), place.bucket, location, patience), Terms(True, "crc32"))

    return made


def read_together(backend: S3Backend, count: int) -> None:
    """By so many threads, each on a connection of its own."""
    together = Barrier(count)

    def read(_: int) -> bytes:
        together.wait()
        return backend.read(A, 0, len(BODY))

    with ThreadPoolExecutor(count) as pool:
        assert list(pool.map(read, range(count))) == [BODY] * count


@pytest.mark.parametrize("action", ["read", "list"])
def test_a_read_on_a_lost_connection_is_asked_again_soon(direct, over, line, pauses, action):
    direct.put_if_absent(A, [BODY])
    backend = over(line.endpoint)
    backend.size(A)
    assert line.lose() == 1
    pauses.clear()
    assert ACTIONS[action][1](backend) == RIGHT[action]
    assert len(pauses) == len(line.asked_in_vain) == 1


def test_one_lost_connection_has_the_idle_ones_left_too(direct, over, line, pauses):
    direct.put_if_absent(A, [BODY])
    backend = over(line.endpoint)
    read_together(backend, 4)
    assert line.lose() > 1
    assert backend.size(A) == len(BODY)
    read_together(backend, 4)
    assert len(line.asked_in_vain) == 1


def test_no_connection_is_asked_anything_that_was_made_long_ago(direct, over, line, pauses):
    direct.put_if_absent(A, [BODY])
    backend = over(line.endpoint, attempts=1, kept_seconds=0, first_read_seconds=OTHERS_WAIT)
    backend.size(A)
    assert line.lose() == 1
    assert backend.put_if_absent(B, [BODY]) == len(BODY)


def test_a_body_that_comes_no_further_is_asked_for_again_soon(direct, over, proxy, pauses):
    direct.put_if_absent(A, [BODY])
    proxy.plan(faults.stalls, "GET", times=1)
    assert over(proxy.endpoint).read(A, 0, len(BODY)) == BODY
    assert len(pauses) == 1


def test_a_slow_server_is_waited_for_in_the_second_attempt(direct, over, proxy, pauses):
    direct.put_if_absent(A, [BODY])
    proxy.plan(faults.answers_after(3 * BRIEFLY), "GET")
    assert over(proxy.endpoint).read(A, 0, len(BODY)) == BODY
    assert len(pauses) == 1


def test_a_put_is_not_hurried(over, proxy, pauses):
    proxy.plan(faults.answers_after(3 * BRIEFLY), "PUT")
    assert over(proxy.endpoint).put_if_absent(A, [BODY]) == len(BODY)
    assert pauses == []
