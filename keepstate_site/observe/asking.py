"""Ask what may not answer: in a thread of its own, one at a time, and waited for no longer than a moment."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

import structlog
from django.db import connections

log = structlog.get_logger("keepstate.health")


class Question:
    """Whoever asks while it is being asked already waits for the same answer: what hangs costs one thread, however often it is asked."""

    def __init__(self, name: str, ask: Callable[[], object]):
        self.name, self.ask = name, ask
        self._lock = threading.Lock()
        self._asked: Future[None] | None = None

    def answers(self, seconds: float) -> bool:
        """Whether `ask` returns in that time, and raises nothing. Causes go to the log."""
        with self._lock:
            if self._asked is None or self._asked.done():
                self._asked = self._begin()
            asked = self._asked
        try:
            asked.result(seconds)
        except TimeoutError:
            log.warning("not_ready", part=self.name, error=f"no answer in {seconds:g} s")
            return False
        except Exception as error:  # whatever the cause is, "not ready" is the answer
            log.warning("not_ready", part=self.name, error=str(error))
            return False
        return True

    def _begin(self) -> "Future[None]":
        asked: Future[None] = Future()
        threading.Thread(target=self._run, args=(asked,), name=f"ask-{self.name}", daemon=True).start()
        return asked

    def _run(self, asked: "Future[None]") -> None:
        """What it asked with is given back before the answer is told: whoever hears it finds nothing of the question left."""
        try:
            self._ask_once()
        except BaseException as error:
            asked.set_exception(error)
        else:
            asked.set_result(None)

    def _ask_once(self) -> None:
        try:
            self.ask()
        finally:
            connections.close_all()
