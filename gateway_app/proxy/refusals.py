"""What the gateway itself refuses, in the shape of the provider's own errors, so that every client can read it."""

import json
from dataclasses import dataclass

from gateway_app.states import Provider

#: The providers' own words for a status.
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    426: "invalid_request_error",
    429: "rate_limit_error",
    502: "api_error",
    503: "overloaded_error",
}

UNAVAILABLE = "ks_unavailable"


@dataclass(eq=False)  # frozen it could not be raised through a context manager, which notes on it where it came from
class Refusal(Exception):
    """`retry`: whether a client does well to ask again; it is said in the header that the SDKs obey."""

    status: int
    code: str
    message: str
    retry: bool = False
    retry_after: int | None = None

    def body(self, provider: Provider | None) -> bytes:
        told = f"KeepState gateway: {self.message}"
        if provider == Provider.GEMINI:
            error: dict[str, object] = {"error": {"code": self.status, "message": told, "status": self.code.upper()}}
        elif provider == Provider.ANTHROPIC:
            error = {"type": "error", "error": {"type": _TYPES.get(self.status, "api_error"), "message": told, "code": self.code}}
        else:
            error = {"error": {"type": _TYPES.get(self.status, "api_error"), "code": self.code, "message": told, "param": None}}
        return json.dumps(error).encode()

    def headers(self) -> dict[str, str]:
        found = {"x-should-retry": "true" if self.retry else "false"}
        return {**found, "retry-after": str(self.retry_after)} if self.retry_after is not None else found


def no_credential() -> Refusal:
    return Refusal(401, "ks_unauthenticated", "The request has no credential of this session. Use the environment that the machine gives.")


def real_key() -> Refusal:
    return Refusal(
        401,
        "ks_provider_key_in_guest",
        "The request carries what looks like a provider's own key. Nothing was sent. A key in a machine would be saved with it: "
        "register it with KeepState, bind it to the session, and use the environment that the machine gives.",
    )


def no_key(provider: str) -> Refusal:
    return Refusal(
        403, "ks_no_key", f"The session has no enabled key for {provider}. Nothing was sent. Bind one: POST /api/v2/sessions/<id>/bindings."
    )


def over_budget(what: str) -> Refusal:
    return Refusal(402, "ks_over_budget", f"The {what} is spent. Nothing was sent. The session is saved and paused; nothing is lost.")


def not_running() -> Refusal:
    return Refusal(
        503, "ks_epoch_mismatch", "This machine's epoch is not its session's any more, or the session does not run. Nothing was sent."
    )


def not_known() -> Refusal:
    return Refusal(409, "ks_call_unknown", "There is no record of the call that is to go on. Nothing was sent.")


def not_let_through(path: str) -> Refusal:
    return Refusal(404, "ks_route_not_served", f"Nothing is let through on this path ({path[:100]}). Nothing was sent.")


def background() -> Refusal:
    return Refusal(
        400,
        "ks_background_refused",
        "A response in the background is read on a route that is not let through: it would be paid for and not be had. Nothing was sent. "
        "Ask without background, and with stream where it takes long.",
    )


def too_large(most: int) -> Refusal:
    return Refusal(413, "ks_too_large", f"A request has at most {most} bytes. Nothing was sent.")


def busy(most: int) -> Refusal:
    return Refusal(
        503,
        "ks_busy",
        f"The machine's requests that wait for their answers have {most} bytes together; no more are held at once. Nothing was sent.",
        retry=True,
        retry_after=5,
    )


def slow(seconds: float) -> Refusal:
    return Refusal(408, "ks_too_slow", f"Nothing of the body came for {seconds:.0f} seconds. Nothing was sent.", retry=True)


def failed() -> Refusal:
    """For what nobody foresaw. It does not say that nothing was sent, for that is not known; whoever asks again joins what was."""
    return Refusal(500, "ks_internal", "The gateway failed. Its operator finds the cause in its log.", retry=True)


def unreadable(why: str) -> Refusal:
    return Refusal(400, "ks_invalid", f"{why} Nothing was sent.")


def upgrade() -> Refusal:
    return Refusal(426, "ks_upgrade_refused", "This gateway speaks plain HTTP. Nothing was sent.")


def unknown_machine() -> Refusal:
    told = "The gateway does not know yet whose machine this is. Nothing was sent."
    return Refusal(503, "ks_unavailable", told, retry=True, retry_after=1)


def unavailable() -> Refusal:
    return Refusal(503, UNAVAILABLE, "The gateway's database does not answer. Nothing was sent.", retry=True, retry_after=1)


def not_recorded() -> Refusal:
    return Refusal(
        503,
        "ks_not_recorded",
        "The provider has ended the call, and it could not be recorded, so its answer is held back. Asked again, it is another call.",
        retry=True,
    )


def draining() -> Refusal:
    return Refusal(503, "ks_draining", "This gateway ends, and another takes over. Nothing was sent.", retry=True, retry_after=1)


def not_reached(why: str) -> Refusal:
    return Refusal(502, "ks_provider_unreachable", f"The provider was not reached ({why}); it did not get the request.", retry=True)
