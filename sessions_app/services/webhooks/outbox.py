"""The outbox: a message for each endpoint that wants an event, written in the event's own transaction.

A message says that something happened and to what: ids, numbers and words of ours. Whoever wants more reads the event by its number.
"""

import json
from typing import Any

from django.db import connection
from django.utils import timezone

from sessions_app.ids import new_message_id
from sessions_app.models import SessionEvent, WebhookDelivery, WebhookEndpoint
from sessions_app.services import dispatch

#: Families of events that webhooks tell of; a subscription names types, or a whole family as `session.*`.
FAMILIES = ("session", "checkpoint")
TEST_TYPE = "webhook.test"
#: What a message takes over from an event's payload.
_FACTS = ("checkpoint_id", "parent", "children", "new_epoch", "stored_bytes", "content_digest")

_INSERT = """
INSERT INTO sessions_app_webhookdelivery (id, endpoint_id, event_type, session_id, body, state, attempt, last_error)
SELECT 'msg_' || replace(gen_random_uuid()::text, '-', ''), endpoint.id, %(type)s, %(session)s, %(body)s, 'pending', 0, ''
FROM sessions_app_webhookendpoint AS endpoint JOIN sessions_app_session AS session ON session.account_id = endpoint.account_id
WHERE session.id = %(session)s AND endpoint.enabled
  AND (endpoint.types = '[]'::jsonb OR endpoint.types ?| ARRAY[%(type)s, %(family)s])
"""


def tell(event: SessionEvent) -> None:
    """Prerequisite: inside the event's transaction. One statement, whether or not the account has endpoints."""
    family, _, _ = event.type.partition(".")
    if family not in FAMILIES:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT, {"type": event.type, "family": f"{family}.*", "session": event.session_id, "body": body(event.type, _data(event))}
        )
        told = cursor.rowcount
    if told:
        dispatch.ring_control_once_committed(dispatch.WEBHOOKS)


def body(type_: str, data: dict[str, Any]) -> str:
    """The exact text that is signed and sent. Its time is for people; what orders events is `stream_seq`."""
    now = timezone.now().isoformat().replace("+00:00", "Z")
    return json.dumps({"type": type_, "timestamp": now, "data": data}, separators=(",", ":"))


def _data(event: SessionEvent) -> dict[str, Any]:
    taken = {name: event.payload[name] for name in _FACTS if name in event.payload}
    return {
        "session_id": event.session_id,
        "event_id": event.id,
        "stream_seq": event.number,
        "epoch": event.epoch,
        "subject_type": event.subject_type,
        "subject_id": event.subject_id,
        **taken,
    }


def tell_test(endpoint: WebhookEndpoint) -> WebhookDelivery:
    """A message that tells nothing, for its owner to see it arrive."""
    message = WebhookDelivery.objects.create(
        id=new_message_id(), endpoint=endpoint, event_type=TEST_TYPE, body=body(TEST_TYPE, {"webhook_id": endpoint.id})
    )
    dispatch.ring_control_once_committed(dispatch.WEBHOOKS)
    message.refresh_from_db()
    return message
