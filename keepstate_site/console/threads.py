"""Blocking work of consoles, in threads of their own: a guest that is slow to answer keeps none of the server's other work waiting."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from django.db import close_old_connections

THREADS = 32
P = ParamSpec("P")
T = TypeVar("T")
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="console")


async def in_thread(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    return await asyncio.get_running_loop().run_in_executor(_pool, _done, partial(work, *arguments, **options))


def _done(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        close_old_connections()  # as Django does after a request
