"""An account's checkpoints as lines of its export: by reference, with digests and sizes; their content is exported one by one
(`manage.py export_checkpoint`).
"""

from collections.abc import Iterator
from typing import Any

from checkpoints_app.models import Checkpoint
from sessions_app.models import Account
from sessions_app.services.account_export import chunked

_FIELDS = (
    *("id", "session_id", "parent_id", "state", "name", "reason", "boundary", "source_epoch", "event_watermark", "pin_id", "image_digest"),
    *("content_digest", "logical_bytes", "unique_bytes", "stored_bytes", "created_at", "published_at"),
)


def rows_of(account: Account) -> Iterator[tuple[str, dict[str, Any]]]:
    for row in chunked(Checkpoint.objects.filter(account=account), _FIELDS):
        yield "checkpoint", row
