"""What an S3 server's refusal, or its silence, means: which of our errors it is, and whether asking again can help.

Texts carry the object's key and the server's code, never what the server or the library wrote: that may hold addresses and identities.
"""

from dataclasses import dataclass

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
)
from urllib3.exceptions import HTTPError

from ..errors import MissingObjectError, NoSpaceError, ObjectExistsError, PermissionDeniedError, StoreError, UnavailableError


class NotBelievedError(Exception):
    """An answer that contradicts itself or what was asked; the text says how. Worth another attempt."""


FAILURES = (BotoCoreError, ClientError, HTTPError, OSError, NotBelievedError)  # what a request can end in

_FULL = {"QuotaExceeded", "InsufficientStorage", "StorageFull", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"}
_CLOCK = {"RequestTimeTooSkewed", "RequestExpired"}
_FORBIDDEN = {
    *("AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
    *("ExpiredToken", "InvalidToken", "TokenRefreshRequired", "NotSignedUp"),
}
_AGAIN = {
    *("SlowDown", "SlowDownRead", "SlowDownWrite", "ServiceUnavailable", "InternalError", "RequestTimeout"),
    *("Throttling", "ThrottlingException", "TooManyRequests", "RequestLimitExceeded", "BandwidthLimitExceeded"),
    *("ConditionalRequestConflict", "OperationAborted"),  # a race with another request about the same key
    *("BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody"),  # the bytes were damaged on their way; nothing was stored
}
_AGAIN_STATUS = {408, 429, 500, 502, 503, 504}
_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, ProfileNotFound)


@dataclass(frozen=True)
class Verdict:
    error: StoreError
    again: bool  # another attempt may end otherwise
    broken: bool = False  # it was the connection that failed: perhaps not it alone


def judge(error: Exception, key: str) -> Verdict:
    if isinstance(error, ClientError):
        return _refusal(error, key)
    if isinstance(error, _NO_CREDENTIALS):
        return Verdict(
            PermissionDeniedError(f"{key}: no credentials for the S3 server were found. Set AWS_ACCESS_KEY_ID and its secret."), False
        )
    if isinstance(error, HTTPClientError) and isinstance(error.kwargs.get("error"), NotBelievedError):
        error = error.kwargs["error"]  # raised while a body was sent; the library wraps what it does not know
    if isinstance(error, NotBelievedError):
        return Verdict(UnavailableError(f"{key}: {error}"), True)
    return Verdict(UnavailableError(f"{key}: no whole answer came ({type(error).__name__})"), True, broken=True)


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _refusal(error: ClientError, key: str) -> Verdict:
    code, status = code_of(error), status_of(error)
    if code == "NoSuchKey" or (error.operation_name == "HeadObject" and status == 404):
        return Verdict(MissingObjectError(key), False)  # any other 404 (no such bucket, a stranger's page) says nothing about the object
    if status == 412:
        return Verdict(ObjectExistsError(key), False)
    told = f"{key}: the S3 server answered {status} {code}"
    if code in _FULL or status == 507:
        return Verdict(NoSpaceError(f"{told}. It was not stored; free space or raise the quota, then retry."), False)
    if code in _CLOCK:
        return Verdict(UnavailableError(f"{told}. Set this host's clock right, then retry."), False)
    if code in _FORBIDDEN or status in (401, 403):
        return Verdict(PermissionDeniedError(f"{told}. Check the credentials and what they may do in the bucket."), False)
    if code in _AGAIN or status in _AGAIN_STATUS:
        return Verdict(UnavailableError(told), True)
    hint = "Make the bucket, or correct its name" if code == "NoSuchBucket" else "Check the store's settings and the server"
    return Verdict(UnavailableError(f"{told}. {hint}, then retry."), False)
