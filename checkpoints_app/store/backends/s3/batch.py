"""A batch on S3. A put is atomic and durable by itself, so it is sent at once and nothing is held back: memory is one object per thread.

An object is visible before `publish`, which the contract allows, since nothing refers to it yet. `publish` sends nothing; it ends the
batch's right to take its objects back. What a writer that died had put stays, and is an orphan like any other.
"""

import threading
from collections.abc import Iterable

from ..backend import Chunk, Step
from ..errors import BackendError, ObjectExistsError
from .bucket import Bucket
from .writes import Terms, new_token, put, remove


class S3Batch:
    """See `Batch`."""

    def __init__(self, bucket: Bucket, step: Step, terms: Terms):
        self._bucket, self._step, self._terms = bucket, step, terms
        self._lock = threading.Lock()
        self._tokens: dict[str, str] = {}  # of what is there, and of what may be because its put ended in doubt
        self._staged: list[str] = []

    def put(self, key: str, chunks: Iterable[Chunk]) -> int:
        self._bucket.where(key)
        body = _body(chunks)
        token = self._claim(key)
        try:
            put(self._bucket, key, body, token, self._terms)
        except (ObjectExistsError, ValueError):
            self._forget(key)
            raise
        with self._lock:
            self._staged.append(key)
        self._step("object_staged")
        return len(body)

    def publish(self) -> None:
        try:
            self._step("objects_synced")
            for key in self._staged:
                self._forget(key)
                self._step("object_named")
            self._step("objects_durable")
        finally:
            self.discard()

    def discard(self) -> None:
        with self._lock:
            dropped, self._tokens = self._tokens, {}
            self._staged = []
        try:
            for key, token in dropped.items():
                remove(self._bucket, key, token)
        except BackendError:
            return  # the server does not answer or may not be asked: patience for each of the others would help nobody

    def _claim(self, key: str) -> str:
        with self._lock:
            if key in self._tokens:
                raise ValueError(f"{key} is in this batch already")
            token = self._tokens[key] = new_token()
            return token

    def _forget(self, key: str) -> None:
        with self._lock:
            self._tokens.pop(key, None)


def _body(chunks: Iterable[Chunk]) -> bytes:
    """In one piece: its hash is signed, and it may have to be sent again."""
    parts = list(chunks)
    return parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(parts)
