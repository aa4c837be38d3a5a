"""The account's records as JSON lines, made while they are sent."""

import asyncio
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

from django.db import connection
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from sessions_app.api.auth import ACCOUNT
from sessions_app.api.envelope import Shape
from sessions_app.api.schema import errors
from sessions_app.api.view import ApiView
from sessions_app.errors import FleetUnavailable
from sessions_app.services import account_export

log = logging.getLogger(__name__)

#: Exports that one process makes at a time: each holds a connection, and the database keeps what it would else forget, for as long.
AT_ONCE = 2
_places = threading.BoundedSemaphore(AT_ONCE)


class AccountExportView(ApiView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(
        operation_id="account_export",
        tags=["account"],
        summary="Export the account's records as JSON lines",
        description=(
            "One moment of all records: account, members, tokens without secrets, sessions, forks, policies, events, operations, webhooks, "
            'checkpoints by reference. Whole only with its last line, {"type": "end", "rows": n}.'
        ),
        responses={(200, "application/x-ndjson"): OpenApiTypes.STR, **errors(401, 403, 426, 503)},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        if not _places.acquire(blocking=False):
            raise FleetUnavailable("Other exports are being made. Nothing was begun.", next_action="Ask again in a few minutes.")
        return _Export(_sent(account_export.lines(self.account)))


class _Export(StreamingHttpResponse):
    """Gives its place back when it is over, or when nobody has it any more without having read it."""

    def __init__(self, pieces: AsyncIterator[bytes]):
        super().__init__(pieces, content_type="application/x-ndjson")
        self._leave = weakref.finalize(self, _places.release)

    def close(self) -> None:
        super().close()
        self._leave()  # which does it once


async def _sent(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """All of it is made in one thread, for a transaction belongs to one; what it raises ends the answer without its last line."""
    pool, loop = ThreadPoolExecutor(1, "export"), asyncio.get_running_loop()
    try:
        while (piece := await loop.run_in_executor(pool, next, pieces, None)) is not None:
            yield piece
    except Exception as error:
        log.warning("an export was cut short", extra={"reason": repr(error)})
        raise
    finally:
        pool.submit(_ended, pieces)
        pool.shutdown(wait=False)


def _ended(pieces: Iterator[bytes]) -> None:
    """In the thread that has the transaction, whoever has stopped reading."""
    try:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()
    finally:
        connection.close()
