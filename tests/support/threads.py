"""The same act from many threads at the same time, each on a database connection of its own."""

import threading
from collections.abc import Callable
from typing import TypeVar

from django.db import connection

T = TypeVar("T")


def at_once(count: int, act: Callable[[int], T]) -> list[T]:
    """Each thread begins when all are ready. What one raises fails the test, through pytest's watch over threads."""
    start, results = threading.Barrier(count), list[T]()

    def run(number: int) -> None:
        try:
            start.wait()
            results.append(act(number))
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == count
    return results
