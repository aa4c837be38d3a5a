"""The S3 backend. See `Backend` for what each method promises."""

from collections.abc import Iterable, Iterator

from ..backend import Batch, Chunk, Head, Listed, Step, check_key, no_step
from .batch import S3Batch
from .bucket import Bucket, connect
from .listing import list_objects
from .place import S3Place
from .probe import probe
from .ranges import facts_once, read_part, read_range, stream_object
from .retry import Patience
from .writes import Terms, remove


class S3Backend:
    """Prerequisite: `probe` accepted the bucket; `terms` are what it found. Used by any number of threads, in one process."""

    def __init__(self, bucket: Bucket, terms: Terms):
        self.bucket, self.terms = bucket, terms

    def batch(self, step: Step = no_step) -> Batch:
        return S3Batch(self.bucket, step, self.terms)

    def put_if_absent(self, key: str, chunks: Iterable[Chunk]) -> int:
        batch = self.batch()
        try:
            written = batch.put(key, chunks)
            batch.publish()
        finally:
            batch.discard()
        return written

    def head(self, key: str, max_bytes: int) -> Head:
        part = read_part(self.bucket, key, 0, max(max_bytes, 1))
        return Head(part.data[:max_bytes], part.object_bytes)

    def read(self, key: str, offset: int, length: int) -> bytes:
        return read_range(self.bucket, key, offset, length)

    def stream(self, key: str, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        for window in stream_object(self.bucket, key):
            for start in range(0, len(window), chunk_bytes):
                yield window[start : start + chunk_bytes]

    def size(self, key: str) -> int:
        return self.bucket.attempt(key, lambda: facts_once(self.bucket, key)).object_bytes

    def list(self, prefix: str) -> Iterator[Listed]:
        if prefix:
            check_key(prefix[:-1] if prefix.endswith("/") else "")
        yield from list_objects(self.bucket, prefix)

    def delete(self, key: str) -> bool:
        return remove(self.bucket, key)


def open_backend(place: S3Place, patience: Patience | None = None) -> S3Backend:
    """Connect, probe, and give the backend that fits what was found. The errors of `probe`; ValueError for a bad location."""
    bucket = connect(place, patience)
    return S3Backend(bucket, probe(bucket))
