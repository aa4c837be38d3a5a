"""What a handler is given: the operation, the lease that fences it, and how it may write."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from sessions_app.models import Operation, Session
from sessions_app.services import lease as leases
from sessions_app.services.lease import Lease
from workers.operations.keeper import Keeper


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
    def fenced(self) -> Iterator[None]:
        """One commit that happens only while the lease is ours. Raises LeaseLost, and then nothing was written."""
        self.keeper.check()
        with transaction.atomic():
            leases.require(self.lease)
            yield

    def succeed(self, response: dict[str, Any], http_status: int = 200) -> None:
        leases.succeed(self.lease, response, http_status)

    def report(self, **progress: Any) -> None:
        self.keeper.check()
        leases.report(self.lease, **progress)
