"""What is the S3 backend's own in a victim: a step within an upload, and the faults that the gate must notice."""

from collections.abc import Callable
from typing import Any

from checkpoints_app.store.backends.s3 import batch, writes

HALF_SENT = "upload_half_sent"  # once per object of some size
HALF_SHOWN = "half_an_object_shown"  # comes with the sabotage alone: no sound save shows half an object
_SOME_SIZE = 50_000
_SENT_AT_ONCE = 512 << 10

replace = setattr  # of what belongs to the product, in this process alone


def watch_uploads(die_at: Callable[[str], None]) -> None:
    """The step is when half of an object's body was handed to the network."""
    read = writes._Upload.read

    def watched(self: writes._Upload, size: int = -1) -> bytes:
        total, before = len(self.getbuffer()), self.tell()
        piece = read(self, size)
        sending = 0 < size <= _SENT_AT_ONCE  # whoever hashes it reads more
        if sending and total > _SOME_SIZE and before < total // 2 <= self.tell():
            die_at(HALF_SENT)
        return piece

    replace(writes._Upload, "read", watched)


def sabotage(kind: str, die_at: Callable[[str], None]) -> None:
    put = writes.put
    if kind == "said_before_sent":  # a put returns while its bytes are still here
        replace(batch, "put", lambda *arguments: None)
    elif kind == "sent_in_two_objects":  # an object becomes visible before it is whole

        def grow(bucket: Any, key: str, body: bytes, token: str, terms: Any) -> None:
            put(bucket, key, body[: len(body) // 2], token, terms)
            die_at(HALF_SHOWN)
            bucket.client.put_object(**bucket.where(key), Body=writes._Upload(body, bucket.patience.deadline(len(body))))

        replace(batch, "put", grow)
    elif kind == "manifest_before_packs":

        def manifests_only(bucket: Any, key: str, *rest: Any) -> None:
            if "/packs/" not in key:
                put(bucket, key, *rest)

        replace(batch, "put", manifests_only)
