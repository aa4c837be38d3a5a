"""A worker that hears nothing any more, though messages wait for it and the broker answers, ends itself; its supervisor starts another.

Consumers that go deaf after a reconnect are a kind of fault that Celery and its transport have had again and again, and a deaf worker looks
healthy from everywhere else. What it was doing is ended in order where it can, and else taken up by lease.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from celery.signals import task_received, worker_ready, worker_shutting_down
from celery.worker import state
from django.conf import settings

from sessions_app.services import dispatch

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
#: A worker that was asked to end and has not is ended without being asked; as long as a stop may take anywhere (keepstate_site/stack).
END_SECONDS = 50.0


class Ear:
    """Judges by looks in a row, not by time: a process that was paused has missed the looks too."""

    def __init__(self, looks: int):
        self._looks = looks
        self._heard = self._known = self._deaf = 0

    def hear(self, **_: Any) -> None:
        self._heard += 1

    def is_deaf(self, waiting: int | None, *, busy: bool) -> bool:
        """After one more look: `waiting` messages of its queues (None: the broker does not answer); `busy`: it has no slot for one."""
        silent = bool(waiting) and not busy and self._heard == self._known
        self._known = self._heard
        self._deaf = self._deaf + 1 if silent else 0
        return self._deaf >= self._looks


def watch(queues: Sequence[str], slots: int) -> None:
    """From when this worker is ready until it is asked to end, in a thread of its main process. Prerequisite: before Celery starts."""
    ear, over = Ear(max(2, round(settings.KEEPSTATE_DEAF_SECONDS / LOOK_SECONDS))), threading.Event()
    thread = threading.Thread(target=_look, args=(ear, queues, slots, over, end), name="deaf", daemon=True)
    task_received.connect(ear.hear, weak=False)
    worker_ready.connect(lambda **_: thread.start(), weak=False)
    worker_shutting_down.connect(lambda **_: over.set(), weak=False)


def _look(ear: Ear, queues: Sequence[str], slots: int, over: threading.Event, deaf: Callable[[], None]) -> None:
    while not over.wait(LOOK_SECONDS):
        waiting = dispatch.unread(queues)
        if ear.is_deaf(waiting, busy=max(len(state.reserved_requests), len(state.active_requests)) >= slots):
            log.error("this worker hears nothing though messages wait for it: it ends itself", extra={"waiting": waiting, "queues": queues})
            deaf()
            return


def end() -> None:
    """As a stop does, and for good where the process does not even do that any more."""
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(END_SECONDS)
    os._exit(1)
