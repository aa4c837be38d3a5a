"""Is this server fit to keep years of work? Asked once per process, with small objects of our own, before anything is entrusted to it."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from botocore.exceptions import ClientError

from ..errors import ObjectExistsError, StoreError
from .answers import code_of, status_of
from .bucket import Bucket
from .listing import list_objects
from .ranges import Part, facts_once, part_once
from .writes import Checksum, Terms, checksum_of, facts_or_none, new_token, put, put_once, remove

CANARY_BYTES = 20_000
CHECKSUMS: tuple[Checksum, ...] = ("crc32", "md5")  # the cheaper first
RACERS = 4
_TAKEN = 200
_TRAILERS = (b"x-amz-checksum-", b"x-amz-trailer", b";chunk-signature=")
_NOT_USED = "Nothing was stored there. Put another server, or a corrected one, behind CHECKPOINT_STORE_URL."


class UnfitServerError(StoreError):
    """The server does something that would lose work, damage it, or keep what was deleted. The text says what."""

    def __init__(self, what: str):
        super().__init__(f"the S3 server is unfit for the checkpoint store: it {what}. {_NOT_USED}")


def probe(bucket: Bucket) -> Terms:
    """How to put. UnfitServerError, or the BackendError of a request that failed.

    Leaves nothing behind unless a request fails or the process dies; what stays lies under `probe/` with a random name.
    """
    _refuse_versions(bucket)
    key = f"probe/{secrets.token_hex(16)}"
    try:
        terms = _examine(bucket, key)
    except UnfitServerError:
        with suppress(StoreError):
            _clean(bucket, key)
        raise
    _clean(bucket, key)
    if list(list_objects(bucket, key)):
        raise UnfitServerError("lists objects that were deleted")
    return terms


def _examine(bucket: Bucket, key: str) -> Terms:
    body, token = secrets.token_bytes(CANARY_BYTES), new_token()
    if bucket.attempt(key, lambda: facts_or_none(bucket, key)) is not None:
        raise UnfitServerError("shows an object that nobody put")
    _put_canary(bucket, key, body, token)
    _expect_same(bucket, key, body, token)
    if [(listed.key, listed.object_bytes) for listed in list_objects(bucket, key)] != [(key, len(body))]:
        raise UnfitServerError("does not list an object that was put")
    noticing = [kind for kind in CHECKSUMS if _notices_damage(bucket, f"{key}-{kind}", kind)]
    if not noticing:
        raise UnfitServerError("stores an upload that was damaged on its way")
    terms = Terms(_refuses_a_second(bucket, key) and _lets_one_racer_win(bucket, f"{key}-race", noticing[0]), noticing[0])
    _expect_whole_listing(bucket, key)
    return terms


def _clean(bucket: Bucket, key: str) -> None:
    for suffix in ("", "-race", *(f"-{kind}" for kind in CHECKSUMS)):
        remove(bucket, key + suffix)


def _refuse_versions(bucket: Bucket) -> None:
    """By the bucket's setting. Where it may not be read, the canary's answer tells."""

    def keeps() -> bool:
        try:
            return bool(bucket.client.get_bucket_versioning(Bucket=bucket.name).get("Status"))
        except ClientError as error:
            if status_of(error) in (403, 405, 501) or code_of(error) == "NotImplemented":
                return False
            raise

    if bucket.attempt(f"versioning of bucket {bucket.name}", keeps):
        raise UnfitServerError("keeps, or once kept, versions in this bucket, so that what is deleted may stay stored")


def _put_canary(bucket: Bucket, key: str, body: bytes, token: str) -> None:
    version = bucket.attempt(key, lambda: put_once(bucket, key, body, token, {}, conditional=False))
    if version is not None:
        raise UnfitServerError("keeps versions in this bucket, so that what is deleted stays stored")


def _expect_same(bucket: Bucket, key: str, body: bytes, token: str) -> None:
    """Whole and in part, with nothing before, after or within."""

    def read() -> tuple[Part, Part]:
        return part_once(bucket, key, 0, 2 * len(body)), part_once(bucket, key, 1_000, 5_000)

    whole, part = bucket.attempt(key, read)
    if any(mark in whole.data for mark in _TRAILERS):
        raise UnfitServerError("stores checksum trailers inside the objects")
    if whole.data != body or part.data != body[1_000:6_000]:
        raise UnfitServerError("gives back other bytes than it was given")
    if whole.token != token:
        raise UnfitServerError("does not keep the metadata that an object is put with")


def _notices_damage(bucket: Bucket, key: str, kind: Checksum) -> bool:
    """It takes an object with the right checksum, and not one with a wrong one."""
    right, wrong = checksum_of(kind, b"whole"), checksum_of(kind, b"damaged")
    return _takes(bucket, key, b"whole", right) and not _takes(bucket, key, b"whole", wrong)


def _refuses_a_second(bucket: Bucket, key: str) -> bool:
    """The condition is refused where something is, and what is there stays. (That it is met where nothing is, the race shows.)"""
    if _answer_to_put(bucket, key, b"second", {}, conditional=True) not in (409, 412):
        return False
    return bucket.attempt(key, lambda: facts_once(bucket, key)).object_bytes == CANARY_BYTES


def _lets_one_racer_win(bucket: Bucket, key: str, checksum: Checksum) -> bool:
    """Some servers look before they take the body in, and let every writer win that came in time. One race does not prove the contrary."""

    def wins(number: int) -> bool:
        body = b"racer %d" % number
        try:
            put(bucket, key, body, new_token(), Terms(True, checksum))
        except ObjectExistsError:
            return False
        return True

    with ThreadPoolExecutor(RACERS, "probe") as pool:
        return sum(pool.map(wins, range(RACERS))) == 1


def _expect_whole_listing(bucket: Bucket, key: str) -> None:
    """Of several pages: one that ends early without saying so would have an erased account's objects stay."""
    if len(list(list_objects(bucket, key, page_keys=1))) != len(list(list_objects(bucket, key))):
        raise UnfitServerError("lists only a part of what is there")


def _takes(bucket: Bucket, key: str, body: bytes, checksum: dict[str, str]) -> bool:
    return _answer_to_put(bucket, key, body, checksum) == _TAKEN


def _answer_to_put(bucket: Bucket, key: str, body: bytes, checksum: dict[str, str], *, conditional: bool = False) -> int:
    """The status of a put with this header, of a refusal too. Troubles that have nothing to do with the header are errors."""

    def once() -> int:
        try:
            put_once(bucket, key, body, new_token(), checksum, conditional=conditional)
        except ClientError as error:
            if status_of(error) not in (400, 409, 412, 501):
                raise
            return status_of(error)
        return _TAKEN

    return bucket.attempt(key, once)
