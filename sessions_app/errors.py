"""Every refusal and failure that a customer can meet, as one flat family.

    ServiceError
      NotFound  NotServed  Unauthenticated  Forbidden  Invalid  TooLarge  NotJson  WrongMethod  ClientTooOld
      AccountClosing  QuotaExceeded
      Conflict  Cancelled  StillVerifying  WrongState  NoCheckpoint  NotRestorable  StackIncompatible  RecoveryRequired  RestoreScope
      IntegrityFailed
      PathExists  RangeRefused  UpgradeRequired  Throttled
      AuthorizationPending  SlowDown  AccessDenied  ExpiredCode
      FleetUnavailable  Unavailable  SaveFailed  SaveUnavailable  StartFailed  StartUnavailable  GuestSilent  MachineLost
      HostLost  Internal

The text says what happened and what did not; `next_action` says what to do; `facts` are extra fields of the answer.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class ServiceError(Exception):
    """`code` is the stable word of the contract, `status` the HTTP status; raised by services, rendered by the API and kept on
    operations. `retry_after_seconds`: when asking again may help, told as Retry-After; None where that is not known.
    """

    code: ClassVar[str] = "ks_internal"
    status: ClassVar[int] = 500
    retry_after_seconds: int | None = None

    def __init__(
        self,
        message: str,
        *,
        next_action: str = "",
        facts: Mapping[str, Any] | None = None,
        code: str | None = None,
        retry_after_seconds: int | None = None,
    ):
        super().__init__(message)
        self.message = message
        self.next_action = next_action
        self.facts = dict(facts or {})
        if retry_after_seconds is not None:
            self.retry_after_seconds = self.facts["retry_after_seconds"] = retry_after_seconds
        self.word = code or self.code

    def as_dict(self) -> dict[str, Any]:
        return {**self.facts, "code": self.word, "type": self.word, "message": self.message, "next_action": self.next_action}


class NotFound(ServiceError):
    code, status = "ks_not_found", 404


class Unauthenticated(ServiceError):
    code, status = "ks_unauthenticated", 401


class Forbidden(ServiceError):
    code, status = "ks_forbidden", 403


class Invalid(ServiceError):
    code, status = "ks_invalid", 400


class NotServed(ServiceError):
    """This service has no such route: another thing than a record that is not there."""

    code, status = "ks_route_not_served", 404


class TooLarge(ServiceError):
    code, status = "ks_too_large", 413


class NotJson(ServiceError):
    """The body is of another type than JSON."""

    code, status = "ks_unsupported_media_type", 415


class WrongMethod(ServiceError):
    code, status = "ks_method_not_allowed", 405


class ClientTooOld(ServiceError):
    code, status = "ks_client_too_old", 426


class Conflict(ServiceError):
    """The record is busy or has moved; nothing was done."""

    code, status = "ks_conflict", 409


class AccountClosing(ServiceError):
    """The account is being deleted: it takes no change but to stay after all. Nothing was done."""

    code, status = "ks_account_closing", 409


class QuotaExceeded(ServiceError):
    """The account has as much of something as it may have: refused before any work started. Facts: quota, limit, used."""

    code, status = "ks_quota_exceeded", 409


class Cancelled(ServiceError):
    """The operation was asked to stop and did, before it had its effect; the message says how it left the session."""

    code, status = "ks_cancelled", 409


class StillVerifying(ServiceError):
    """What the machine was resumed from has not all been verified yet: nothing that it does is saved until it is."""

    code, status = "ks_verifying", 409


class WrongState(ServiceError):
    """The session's state does not allow it; the message names the state."""

    code, status = "ks_conflict", 409


class NoCheckpoint(ServiceError):
    code, status = "ks_no_checkpoint", 409


class NotRestorable(ServiceError):
    code, status = "ks_checkpoint_not_restorable", 409


class StackIncompatible(ServiceError):
    """The pins differ: nothing was started."""

    code, status = "ks_stack_incompatible", 409


class RecoveryRequired(ServiceError):
    """The saved work does not agree with the history that the database has: it does not continue before somebody decides."""

    code, status = "ks_recovery_required", 409


class RestoreScope(ServiceError):
    """Later work would be left by a restore, and this consent is not to exactly that. Nothing was done."""

    code, status = "ks_restore_scope", 409


class IntegrityFailed(ServiceError):
    """Stored content is not what was saved: refused, nothing was started."""

    code, status = "ks_integrity", 422


class FleetUnavailable(ServiceError):
    code, status = "ks_fleet_unavailable", 503


class Unavailable(ServiceError):
    """The service's own database does not answer: whether a mutation happened is not known."""

    code, status = "ks_unavailable", 503
    retry_after_seconds = 2


class TooManyStreams(ServiceError):
    """The account follows as many streams as it may."""

    code, status = "ks_too_many_streams", 429


class PathExists(ServiceError):
    """A file was to be written only where none is."""

    code, status = "ks_path_exists", 412


class UpgradeRequired(ServiceError):
    """The route is not for plain requests."""

    code, status = "ks_upgrade_required", 426


class RangeRefused(ServiceError):
    """The range of bytes lies outside of the file."""

    code, status = "ks_range_not_satisfiable", 416


class Throttled(ServiceError):
    """More requests than this caller's rate takes; nothing was done."""

    code, status = "ks_throttled", 429


class AuthorizationPending(ServiceError):
    """Nobody has decided yet on the sign-in that a terminal began."""

    code, status = "ks_authorization_pending", 428


class SlowDown(ServiceError):
    """The terminal asks more often than it was told to."""

    code, status = "ks_slow_down", 429


class AccessDenied(ServiceError):
    """The sign-in was denied, or whoever approved it may not do so any more."""

    code, status = "ks_access_denied", 403


class ExpiredCode(ServiceError):
    """A code of a sign-in that is not known, is over, or was used."""

    code, status = "ks_expired_token", 400


class SaveFailed(ServiceError):
    code, status = "ks_save_failed", 500


class SaveUnavailable(SaveFailed):
    """The store did not answer for as long as a save waits for it; the same save may succeed later."""

    status, retry_after_seconds = 503, 15


class StartFailed(ServiceError):
    """A machine could not be started; no process was left behind."""

    code, status = "ks_start_failed", 500


class StartUnavailable(StartFailed):
    """The store did not answer for as long as a resume waits for it; the same resume may succeed later."""

    status, retry_after_seconds = 503, 15


class GuestSilent(ServiceError):
    code, status = "ks_guest_silent", 504


class MachineLost(ServiceError):
    """The machine's process is gone; the last checkpoint is intact."""

    code, status = "ks_machine_lost", 409


class HostLost(ServiceError):
    """The host is gone, and the machine with it; what was saved is intact."""

    code, status = "ks_host_lost", 409


class Internal(ServiceError):
    code, status = "ks_internal", 500
