"""A worker that dies: a fork of this process, which has loaded everything and is of the test's settings, with connections of its own.

A program that must not know what the test knows (its clock, what it has imported) is one of tests/support/victims.py instead.
"""

import os
import signal
import traceback
from collections.abc import Callable
from typing import NoReturn

from django.db import connections

from tests.support.shelf_fixtures import forget_backends
from tests.support.shelf_places import client_of
from tests.support.waiting import until_gone

_SECONDS = 120


def run(work: Callable[[], object]) -> int:
    """Another process does this work in this test's database and store. Its exit status: 0, 1 for an exception (which it prints), negative
    for the signal that ended it. It is killed, and the test fails, if it has not ended after two minutes.
    """
    connections.close_all()  # two processes that write to one connection end it for both
    pid = os.fork()
    if pid == 0:
        _work(work)
    try:
        until_gone(pid, _SECONDS)
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _work(work: Callable[[], object]) -> NoReturn:
    status = 1
    try:
        client_of.cache_clear()
        forget_backends()
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
