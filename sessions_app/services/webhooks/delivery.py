"""Messages on their way: taken up, tried, tried again later, taken or given up.

A message is delivered at least once: a worker that dies after the endpoint took it, and before that was written, leaves it to be sent
again, under the same id. Messages of one endpoint may overtake each other.
"""

import logging
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from django.db.models import F, Q
from django.db.models.functions import Now

from sessions_app.errors import Conflict, NotFound, ServiceError
from sessions_app.models import WebhookDelivery, WebhookEndpoint
from sessions_app.services import cursor as cursors
from sessions_app.services import dispatch, steps
from sessions_app.services.cursor import Page
from sessions_app.services.webhooks.send import Message, Outcome, send
from sessions_app.states import DeliveryState

log = logging.getLogger(__name__)

#: Waits after each failed attempt, in seconds: three days in all, then the message is given up.
WAITS = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
#: Messages of one turn, of one endpoint in it; all of a turn are sent at the same time, so it takes as long as its slowest.
TURN = 16
_OF_ONE = 4
_LOOK = 200
#: Whoever took a message up and does not say what came of it is dead after this; it is longer than any attempt takes.
_HELD = timedelta(seconds=60)
KEPT = timedelta(days=30)
_BATCH = 1000
_GONE = "the endpoint answered 410: it wants nothing any more"
_SILENT = "a message was given up, and none was taken since it was written"


def run_turn() -> int:
    """Send what is due, a few at a time. Two turns at once send nothing twice. Returns how many were tried."""
    taken = list(_take_up())
    if not taken:
        return 0
    with ThreadPoolExecutor(len(taken), thread_name_prefix="webhook") as pool:
        for message, outcome in zip(taken, pool.map(send, taken), strict=True):
            _write(message, outcome)
    if len(taken) == TURN:
        dispatch.ring_control(dispatch.WEBHOOKS)
    return len(taken)


def _take_up() -> Iterator[Message]:
    """Each by a guarded update: a message that another turn has taken up meanwhile is left to it."""
    due = WebhookDelivery.objects.filter(state=DeliveryState.PENDING, due_at__lte=Now(), endpoint__enabled=True)
    seen, taken = Counter[str](), 0
    for row in due.select_related("endpoint").order_by("due_at")[:_LOOK]:
        if taken == TURN or seen[row.endpoint_id] == _OF_ONE:
            continue
        mine = WebhookDelivery.objects.filter(id=row.id, state=DeliveryState.PENDING, attempt=row.attempt, due_at__lte=Now())
        if mine.update(attempt=row.attempt + 1, due_at=Now() + _HELD):
            message = _message(row)
            if message is not None:
                seen[row.endpoint_id] += 1
                taken += 1
                yield message


def _message(row: WebhookDelivery) -> Message | None:
    try:
        secrets = tuple(steps.unseal.call(row.endpoint.account_id, sealed) for sealed in _sealed(row.endpoint))
    except ServiceError as error:
        log.warning("a webhook's secret does not open", extra={"webhook_id": row.endpoint_id, "reason": error.word})
        return None
    return Message(row.id, row.attempt + 1, row.endpoint.url, row.body.encode(), secrets)


def _sealed(endpoint: WebhookEndpoint) -> list[bytes]:
    overlap = WebhookEndpoint.objects.filter(id=endpoint.id, previous_secret_until__gt=Now()).exists()
    return [bytes(endpoint.secret), *([bytes(endpoint.previous_secret)] if overlap else [])]


def _write(message: Message, outcome: Outcome) -> None:
    """What came of one attempt. A redelivery that was asked for meanwhile has another attempt's number, and is not touched."""
    mine = WebhookDelivery.objects.filter(id=message.id, state=DeliveryState.PENDING, attempt=message.attempt)
    facts = {"last_status": outcome.status, "last_error": outcome.error}
    if not outcome.error:
        if mine.update(state=DeliveryState.DELIVERED, due_at=None, ended_at=Now(), **facts):
            WebhookEndpoint.objects.filter(deliveries=message.id).update(last_success_at=Now())
    elif message.attempt > len(WAITS):
        if mine.update(state=DeliveryState.GIVEN_UP, due_at=None, ended_at=Now(), **facts):
            _disable(message.id, Q(last_success_at=None) | Q(last_success_at__lt=F("deliveries__created_at")), _SILENT)
    else:
        mine.update(due_at=Now() + _wait(message.attempt, outcome), **facts)
    if outcome.gone:
        _disable(message.id, Q(), _GONE)


def _wait(attempt: int, outcome: Outcome) -> timedelta:
    """A little more than the schedule's, so that what failed together is not tried together; never less than the endpoint asks for."""
    seconds = WAITS[attempt - 1] * random.uniform(1, 1.1)  # noqa: S311  no secret
    return timedelta(seconds=max(seconds, outcome.wait or 0))


def _disable(message_id: str, when: Q, reason: str) -> None:
    endpoints = WebhookEndpoint.objects.filter(when, deliveries=message_id, enabled=True).values_list("id", flat=True)
    for endpoint_id in list(endpoints):
        WebhookEndpoint.objects.filter(id=endpoint_id, enabled=True).update(
            enabled=False, disabled_reason=reason, revision=F("revision") + 1
        )


def redeliver(endpoint: WebhookEndpoint, message_id: str) -> WebhookDelivery:
    """Send a message again under its own id, from the first attempt on. Prerequisite: inside a transaction. Raises NotFound or Conflict."""
    if not endpoint.enabled:
        raise Conflict("The webhook is disabled: nothing is sent to it.", next_action="Enable it first.", code="ks_webhook_disabled")
    mine = WebhookDelivery.objects.filter(endpoint=endpoint, id=message_id[:40])
    if not mine.update(state=DeliveryState.PENDING, attempt=0, due_at=Now(), ended_at=None):
        raise NotFound(
            "There is no such message of this webhook.", next_action=f"List them: GET /api/v2/webhooks/{endpoint.id}/deliveries."
        )
    dispatch.ring_control_once_committed(dispatch.WEBHOOKS)
    return mine.get()


def page(endpoint: WebhookEndpoint, *, state: DeliveryState | None, limit: int, cursor: str) -> Page[WebhookDelivery]:
    """Newest first. Raises Invalid for a bad cursor."""
    rows = WebhookDelivery.objects.filter(endpoint=endpoint)
    if state is not None:
        rows = rows.filter(state=state)
    return cursors.newest_first(rows, limit=limit, cursor=cursor)


def forget_old() -> int:
    """A batch of what ended long ago. Returns how many."""
    old = WebhookDelivery.objects.filter(ended_at__lt=Now() - KEPT).order_by("ended_at").values("id")[:_BATCH]
    return WebhookDelivery.objects.filter(id__in=old).delete()[0]
