"""Keeps a lease alive while its work goes on, and tells the work when it must stop."""

import logging
import threading
import time
from types import TracebackType
from typing import Self

from django.db import connection

from sessions_app.errors import Cancelled
from sessions_app.services import cancel
from sessions_app.services import lease as leases
from sessions_app.services.database import give_back_connection
from sessions_app.services.lease import Lease, LeaseLost

log = logging.getLogger(__name__)
#: How often the work's own row is asked whether its cancel was requested.
LISTEN_SECONDS = 1.0


class Keeper:
    """A thread that renews a lease every third of its length, and listens for a cancel, on a database connection of its own.

    The work asks `check()` between its steps: it raises LeaseLost once another worker owns the operation, or once nothing was renewed for
    two thirds of the lease, so that the work stops before the lease can have expired. It raises Cancelled, once, when the operation was
    asked to stop. `claimed`: when the claim was asked for, by `time.monotonic`.
    """

    def __init__(self, lease: Lease, claimed: float):
        self.lease = lease
        self._over = threading.Event()
        self._lost = threading.Event()
        self._cancel = threading.Event()
        self._told = False
        self._renewed = claimed
        self._thread = threading.Thread(target=self._keep, name=f"lease-{lease.operation_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Between two steps that may still be left undone."""
        self.check_lease()
        if self.cancelled() and not self._told:
            self._told = True  # what cleans up after a cancel is not cancelled again
            raise Cancelled(f"The operation {self.lease.operation_id} was cancelled.")

    def check_lease(self) -> None:
        """Where there is no way back: what has had its effect is finished, whatever was asked since."""
        if self._lost.is_set() or time.monotonic() - self._renewed > 2 * self.lease.renew_every:
            raise LeaseLost(self.lease.operation_id)

    def cancelled(self) -> bool:
        """Whether the operation was asked to stop, as far as that has been heard."""
        return self._cancel.is_set()

    def hear_cancel(self) -> None:
        """It was asked to stop."""
        self._cancel.set()

    def _keep(self) -> None:
        try:
            step, waited = min(LISTEN_SECONDS, self.lease.renew_every), 0.0
            while not self._over.wait(step):
                waited += step
                if waited >= self.lease.renew_every:
                    self._renew()
                    waited = 0.0
                if self._lost.is_set():
                    return
                self._listen()
        finally:
            connection.close()

    def _renew(self) -> None:
        began = time.monotonic()
        try:
            leases.renew(self.lease)
            self._renewed = began
        except LeaseLost:
            self._lost.set()
        except Exception:  # the database may come back before the lease ends: check() decides by the clock
            log.warning("lease not renewed", extra={"operation_id": self.lease.operation_id}, exc_info=True)
            connection.close()
        give_back_connection()  # it is needed for a moment in every third of the lease

    def _listen(self) -> None:
        if self._cancel.is_set():
            return
        try:
            if cancel.requested(self.lease.operation_id):
                self._cancel.set()
        except Exception:  # it is asked again in a moment
            connection.close()
        give_back_connection()
