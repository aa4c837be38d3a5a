"""A host tells that it is alive: a thread in the main process of its workers writes to PostgreSQL, whatever the broker and the work do.

The write is guarded by the installation that has the host's id (workers/host/claim.py): one that finds itself replaced, or retired, ends
its worker in order. No fault of the database ends anything: it is tried again, on a new connection.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection

from sessions_app.bounded import bounded
from workers.host.claim import why_refused
from workers.host.identity import host_id, instance
from workers.host.liveness import silent_after

log = logging.getLogger(__name__)

#: Longest time between two beats.
BEAT_SECONDS = 5.0
#: A database that takes longer for a beat, or for a connection, is left and asked anew: where it has moved meanwhile, and the old one
#: stands still without a word, the host would else be lost.
ANSWER_SECONDS = 5

_BEAT = """
UPDATE workers_host SET heartbeat_at = clock_timestamp(),
  resting_until = CASE WHEN %(leaving)s THEN clock_timestamp() + make_interval(secs => %(back_within)s) END,
  vm_heard_at = CASE WHEN %(vm)s THEN clock_timestamp() ELSE vm_heard_at END,
  vm_missing_at = CASE WHEN NOT %(vm)s AND clock_timestamp() - make_interval(secs => %(silent)s) BETWEEN vm_heard_at AND heartbeat_at
    THEN clock_timestamp() END
WHERE id = %(host)s AND instance = %(instance)s AND retired_at IS NULL
"""


def _end_this_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class Heartbeat:
    """`end` is called once, from the thread, when this installation may not run under its id any more; `refused` then says why.
    `vm`: of the host's vm worker. One that leaves takes no more work, so from then on it is not heard of as such; back within the silent
    time, it was never missed.

    Prerequisite: the host is registered. Other workers of the host may beat beside this one.
    """

    def __init__(self, end: Callable[[], None] = _end_this_process, *, vm: bool = False):
        self.refused = ""
        self._end = end
        self._vm = vm
        self._leaving = False
        self._over = threading.Event()
        self._own: psycopg.Connection[Any] | None = None
        self._parameters = _connection_parameters()
        self._facts = {
            "host": host_id(),
            "instance": instance(),
            "back_within": settings.KEEPSTATE_HOST_RETURN_SECONDS,
            "silent": silent_after().total_seconds(),
        }
        self._thread = threading.Thread(target=self._beat_on, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """The worker was told to stop: from the next beat on the host is expected back, and is not lost by being away. A flag and nothing
        more, for it is called by a signal's handler. Other workers of the host that stay take the word back.
        """
        self._leaving = True

    def stop(self) -> None:
        """The worker ends. What it leaves with is written once more, so that the last worker of the host to end has the last word."""
        self._over.set()
        self._thread.join(2 * ANSWER_SECONDS)
        if self._leaving and not self.refused and not self._thread.is_alive():
            self.beat()
        self._close()

    def _beat_on(self) -> None:
        pause = min(BEAT_SECONDS, silent_after().total_seconds() / 4)
        while not self._over.wait(pause):
            self.beat()
            if self.refused:
                log.error("this worker ends: %s", self.refused)
                self._end()
                return

    def beat(self) -> None:
        """One beat. Sets `refused` if the id is not this installation's any more; a database that does not answer is only told."""
        try:
            leaving = self._leaving
            told = {**self._facts, "leaving": leaving, "vm": self._vm and not leaving}
            found = self._connected().execute(_BEAT, told).rowcount
            if not found:
                self.refused = self._why()
        except Exception:
            log.warning("the host's heartbeat was not written", exc_info=True)
            self._close()

    def _connected(self) -> psycopg.Connection[Any]:
        if self._own is None:
            self._own = bounded(ANSWER_SECONDS).connect(**self._parameters, autocommit=True)
        return self._own

    def _why(self) -> str:
        try:
            return why_refused()
        finally:
            connection.close()  # this thread's, of Django's own

    def _close(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None


def _connection_parameters() -> dict[str, Any]:
    """Of a connection beside Django's: the work must not be able to keep it waiting for a place in the pool."""
    known = connection.get_connection_params()
    kept = {name: known[name] for name in known if name not in ("context", "cursor_factory", "prepare_threshold", "options")}
    limit = ANSWER_SECONDS * 1000
    return kept | {
        "connect_timeout": ANSWER_SECONDS,
        "tcp_user_timeout": limit,
        "options": f"-c statement_timeout={limit} -c lock_timeout={limit}",
        "application_name": "keepstate-heartbeat",
    }
