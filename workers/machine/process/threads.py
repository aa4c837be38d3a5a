"""Acts in a thread that ends afterwards: what the kernel keeps per thread (namespaces, root, working directory) changes for nobody else."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def apart(act: Callable[[], T]) -> T:
    """What `act` returns in a thread of its own. Raises what it raises."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(act())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="apart", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
