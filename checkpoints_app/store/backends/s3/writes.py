"""Putting and removing single objects, so that a lost answer, a second writer and a bucket that keeps versions are all told apart.

Each put carries a random token. An object that turns out to be there is ours if it has it: an attempt whose answer was lost, or that
something in between sent twice. A request that still travels when its sender has given up may take effect later, even after the object's
removal; such an object is one that nothing refers to, and the sweep of orphans takes it.
"""

import base64
import hashlib
import io
import secrets
import zlib
from dataclasses import dataclass
from typing import Literal

from botocore.exceptions import ClientError

from ..errors import ObjectExistsError, UnavailableError
from .answers import NotBelievedError, code_of, status_of
from .bucket import Bucket
from .ranges import PUT_MARK, Part, facts_once
from .retry import Deadline

MAX_OBJECT_BYTES = 5 << 30  # of a single put; several parts would need a second request to become visible, and one to give up


Checksum = Literal["crc32", "md5"]


@dataclass(frozen=True)
class Terms:
    """How a server takes puts, as `probe` found out."""

    conditional: bool  # it honours If-None-Match: *
    checksum: Checksum  # with this it notices an upload that was damaged on its way


def new_token() -> str:
    return secrets.token_hex(16)


def checksum_of(kind: Checksum, body: bytes) -> dict[str, str]:
    """As a header of the request, which every server takes or ignores; never as a trailer, which some store inside the object.

    Needed beside the signature, which covers the body's SHA-256: not every server compares that.
    """
    if kind == "crc32":
        return {"ChecksumCRC32": base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()}
    return {"ContentMD5": base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()}


def put(bucket: Bucket, key: str, body: bytes, token: str, terms: Terms) -> None:
    """The object is durable at return. ObjectExistsError if the key was taken; its object was not touched.

    That is certain on conditional terms. If not, a writer that puts the same key between our look and our put can be overwritten, or
    overwrite us; the look afterwards notices only the latter. Keys here are 256 random bits, so no two writers choose one by chance.
    """
    if len(body) > MAX_OBJECT_BYTES:
        raise ValueError(f"{key} has {len(body)} bytes; an object has at most {MAX_OBJECT_BYTES}")
    checksum = checksum_of(terms.checksum, body)
    once = _put_if_absent_once if terms.conditional else _look_put_look_once
    bucket.attempt(key, lambda: once(bucket, key, body, token, checksum))


def put_once(bucket: Bucket, key: str, body: bytes, token: str, checksum: dict[str, str], *, conditional: bool) -> str | None:
    """The bare request; returns the version that the server made of it, if it keeps versions. Raises what the client raises."""
    condition = {"IfNoneMatch": "*"} if conditional else {}
    sent = _Upload(body, bucket.patience.deadline(len(body)))
    answer = bucket.client.put_object(**bucket.where(key), Body=sent, Metadata={PUT_MARK: token}, **checksum, **condition)
    if not answer.get("ETag"):
        raise NotBelievedError("the answer to a put is not a store's (is there something in between?)")
    return _version(answer)


class _Upload(io.BytesIO):
    """Goes out piece by piece: the HTTP library gives one that is bytes no longer, in all, than it gives a connection to come about."""

    def __init__(self, body: bytes, deadline: Deadline):
        super().__init__(body)
        self._deadline = deadline

    def read(self, size: int | None = -1, /) -> bytes:
        self._deadline.check()
        return super().read(size)


def remove(bucket: Bucket, key: str, token: str | None = None) -> bool:
    """At return the object is gone, and was seen to be; with `token`, only if it is the one that was put with it.

    False if it was not there. UnavailableError in a bucket that keeps versions: there its bytes would stay. Only the answer to a deletion
    tells that, so one is asked for also where nothing is seen: an earlier call may have left the versions of what it hid.
    """
    found = False

    def once() -> None:
        nonlocal found
        there = facts_or_none(bucket, key)
        if token is not None and (there is None or there.token != token):
            return
        found = found or there is not None
        answer = bucket.client.delete_object(**bucket.where(key))
        if answer.get("DeleteMarker") or _version(answer):
            raise UnavailableError(f"{key}: the bucket keeps versions, so its bytes are still stored. Use a bucket without versioning.")
        if there is not None and facts_or_none(bucket, key) is not None:
            raise NotBelievedError("it is still there after its deletion")

    bucket.attempt(key, once)
    return found


def facts_or_none(bucket: Bucket, key: str) -> Part | None:
    """Size and token of an object, None if it is not there, in one attempt. Raises what the client raises, or NotBelievedError."""
    try:
        return facts_once(bucket, key)
    except ClientError as error:
        if code_of(error) != "NoSuchKey":
            raise
        return None


def _put_if_absent_once(bucket: Bucket, key: str, body: bytes, token: str, checksum: dict[str, str]) -> None:
    try:
        put_once(bucket, key, body, token, checksum, conditional=True)
    except ClientError as error:
        if status_of(error) != 412:
            raise
        _expect_ours(facts_once(bucket, key), key, body, token)


def _look_put_look_once(bucket: Bucket, key: str, body: bytes, token: str, checksum: dict[str, str]) -> None:
    before = facts_or_none(bucket, key)
    if before is None:
        put_once(bucket, key, body, token, checksum, conditional=False)
    _expect_ours(before or facts_once(bucket, key), key, body, token)


def _expect_ours(found: Part, key: str, body: bytes, token: str) -> None:
    if found.token != token:
        raise ObjectExistsError(key)
    if found.object_bytes != len(body):
        raise UnavailableError(
            f"{key}: the server keeps {found.object_bytes} bytes of the {len(body)} it was given. Do not use this server."
        )


def _version(answer: dict[str, object]) -> str | None:
    version = answer.get("VersionId")
    return None if version in (None, "", "null") else str(version)
