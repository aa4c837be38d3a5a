"""Work whose caller goes on before its end."""

import threading
from collections.abc import Callable


def early(work: Callable[[Callable[[], None]], None]) -> Callable[[], None]:
    """Run `work` on a thread and return when it calls what it is given, or ends. What is returned waits for the end.

    An error that comes before is raised here, a later one by what is returned. The thread dies with the process.
    """
    reached, errors = threading.Event(), list[BaseException]()
    early_errors = list[BaseException]()

    def run() -> None:
        try:
            work(reached.set)
        except BaseException as error:
            (errors if reached.is_set() else early_errors).append(error)
        finally:
            reached.set()

    def finish() -> None:
        thread.join()
        if errors:
            raise errors[0]

    thread = threading.Thread(target=run, name="greeting", daemon=True)
    thread.start()
    reached.wait()
    if early_errors:
        raise early_errors[0]
    return finish
