"""What a handler is given: the operation, the lease that fences it, and how it may write."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from sessions_app.models import Operation, Session
from sessions_app.services import lease as leases
from sessions_app.services.database import AWAY, drop_broken_connection
from sessions_app.services.lease import Lease, LeaseLost
from workers.host.identity import boot_id
from workers.operations.keeper import Keeper

log = logging.getLogger(__name__)
_INSIST_SECONDS = 0.5

#: With these an attempt ends where it is, as if its worker had died there: nothing is said of how the operation ended, for the next attempt
#: finds out what was written and goes on.
LEFT_TO_THE_NEXT = (LeaseLost, *AWAY)


@dataclass(frozen=True)
class Work:
    operation: Operation
    session: Session
    lease: Lease
    keeper: Keeper

    @property
    def source(self) -> str:
        return f"operation/{self.operation.id}"

    @contextmanager
    def fenced(self, *, cancellable: bool = True) -> Iterator[None]:
        """One commit that happens only while the lease is ours. Raises LeaseLost or Cancelled, and then nothing was written.

        Not `cancellable`: what it writes has happened already, or cleans up.
        """
        self.keeper.check() if cancellable else self.keeper.check_lease()
        drop_broken_connection()
        with transaction.atomic():
            leases.require(self.lease)
            yield

    def insist(self, write: Callable[[], None]) -> None:
        """One commit of ours, tried again while the database does not answer: for what has happened, and cannot be made to happen again.

        Raises LeaseLost, at the latest when the lease is over.
        """
        while True:
            try:
                with self.fenced(cancellable=False):
                    write()
                return
            except AWAY:
                log.warning("the database did not answer: what was done is written again in a moment", exc_info=True)
                time.sleep(_INSIST_SECONDS)

    def next_epoch(self, then: Callable[[Session], None] = lambda _: None, **changes: Any) -> None:
        """Begin the session's next epoch, with other changes: what acts for an older one is refused from now on. Raises LeaseLost.

        The row says under which boot of this computer it begins: no machine of it outlives that (workers/operations/host_loss.py). The
        session is read again within the commit: after it, it may already be another owner's. `then` is done within it too.
        """
        with self.fenced():
            known = Session.objects.filter(id=self.session.id, epoch=self.session.epoch)
            boot = {"machine_boot": boot_id(), "machine_boot_epoch": F("epoch") + 1}
            if not known.update(epoch=F("epoch") + 1, **boot, **changes):
                raise LeaseLost(self.operation.id)
            self.session.refresh_from_db()
            then(self.session)

    def succeed(self, response: dict[str, Any] | list[dict[str, Any]], http_status: int = 200) -> None:
        leases.succeed(self.lease, response, http_status)

    def report(self, **progress: Any) -> None:
        self.keeper.check()
        leases.report(self.lease, **progress)
