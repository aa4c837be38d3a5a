"""What is the S3 backend's own in a victim: a step within an upload, and the faults that the gate must notice."""

import http.client
from collections.abc import Callable
from typing import Any

from checkpoints_app.store.backends.s3 import batch, writes

HALF_SENT = "upload_half_sent"  # once per object of some size
_SOME_SIZE = 50_000

replace = setattr  # of what belongs to the product, in this process alone


def watch_uploads(die_at: Callable[[str], None]) -> None:
    """Bodies go out in two halves with the step between them."""
    send = http.client.HTTPConnection.send

    def in_halves(self: http.client.HTTPConnection, data: Any) -> None:
        if isinstance(data, bytes) and len(data) > _SOME_SIZE:
            send(self, data[: len(data) // 2])
            die_at(HALF_SENT)
            data = data[len(data) // 2 :]
        send(self, data)

    replace(http.client.HTTPConnection, "send", in_halves)


def sabotage(kind: str) -> None:
    put = writes.put
    if kind == "said_before_sent":  # a put returns while its bytes are still here
        replace(batch, "put", lambda *arguments: None)
    elif kind == "sent_in_two_objects":  # an object becomes visible before it is whole

        def grow(bucket: Any, key: str, body: bytes, token: str, terms: Any) -> None:
            put(bucket, key, body[: len(body) // 2], token, terms)
            bucket.client.put_object(**bucket.where(key), Body=body)

        replace(batch, "put", grow)
    elif kind == "manifest_before_packs":

        def manifests_only(bucket: Any, key: str, *rest: Any) -> None:
            if "/packs/" not in key:
                put(bucket, key, *rest)

        replace(batch, "put", manifests_only)
