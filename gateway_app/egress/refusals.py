"""What the egress proxy refuses: at once, with why and what to do about it. A program shows its user the words beside the status."""

import json
from dataclasses import dataclass

from gateway_app.egress.names import Target
from gateway_app.states import EgressOutcome

_NOTHING = "Nothing was sent."


@dataclass(frozen=True)
class Refusal(Exception):
    """`phrase` stands in the status line, for many programs show no body. `outcome`: as it is counted; None: it is not."""

    status: int
    phrase: str
    code: str
    message: str
    next_action: str = ""
    outcome: EgressOutcome | None = None
    wanted: Target | None = None
    retry_after: int | None = None

    def response(self, *, body: bool = True) -> bytes:
        error = {"code": self.code, "type": self.code, "message": f"{self.message} {_NOTHING}", "next_action": self.next_action}
        told = {} if self.wanted is None else {"host": self.wanted.host, "port": self.wanted.port}
        data = json.dumps({"schema_version": 2, "error": {**error, **told}}).encode() + b"\n"
        fields = [f"HTTP/1.1 {self.status} {self.phrase}", "Content-Type: application/json", f"Content-Length: {len(data)}"]
        if self.retry_after is not None:
            fields.append(f"Retry-After: {self.retry_after}")
        return "\r\n".join([*fields, "Connection: close", "", ""]).encode() + (data if body else b"")


def denied(wanted: Target, session_id: str) -> Refusal:
    return Refusal(
        *(403, "Denied by the egress policy of the session", "ks_egress_denied"),
        f"The session's egress policy does not allow {wanted.host} on port {wanted.port}.",
        f"Its owner may allow it: PUT /api/v2/sessions/{session_id}/egress.",
        EgressOutcome.DENIED,
        wanted,
    )


def address(why: str) -> Refusal:
    return Refusal(
        *(403, "Addresses are not let through", "ks_egress_address", f"The request cannot be let through: {why}."),
        "Ask for the host by its name; addresses, localhost and private networks are reached by no policy.",
        EgressOutcome.ADDRESS,
    )


def forbidden(wanted: Target, why: str) -> Refusal:
    return Refusal(
        *(403, "The name leads to a forbidden address", "ks_egress_forbidden"),
        f"{wanted.host} leads to an address that no machine may reach ({why}), whatever its policy says.",
        "Name a host of which every address is public.",
        EgressOutcome.FORBIDDEN,
        wanted,
    )


def unresolved(wanted: Target, why: str) -> Refusal:
    message = f"No address of {wanted.host} was found ({why})."
    return Refusal(502, "The name was not resolved", "ks_egress_unresolved", message, "", EgressOutcome.UNRESOLVED, wanted)


def unreachable(wanted: Target, why: str) -> Refusal:
    message = f"{wanted.host} did not take a connection on port {wanted.port} ({why})."
    return Refusal(502, "The host was not reached", "ks_egress_unreachable", message, "", EgressOutcome.UNREACHABLE, wanted)


def unreadable(why: str) -> Refusal:
    return Refusal(400, "Unreadable", "ks_invalid", f"The request cannot be read: {why}.")


def no_length(why: str) -> Refusal:
    return Refusal(411, "Length Required", "ks_invalid", f"The request is not passed on: {why}.")


def head_too_large(most: int) -> Refusal:
    return Refusal(431, "Request Header Fields Too Large", "ks_too_large", f"The head of a request has at most {most} bytes.")


def head_too_late(seconds: float) -> Refusal:
    return Refusal(408, "Request Timeout", "ks_invalid", f"No whole head of a request came within {seconds:g} seconds.")


def not_running() -> Refusal:
    message = "This machine's epoch is not its session's any more, or the session does not run."
    return Refusal(503, "The session does not run", "ks_epoch_mismatch", message)


def too_many(most: int) -> Refusal:
    return Refusal(429, "Too many connections", "ks_too_many", f"{most} connections are open already.", "Close some.", retry_after=1)


def unknown() -> Refusal:
    return Refusal(503, "Not known yet", "ks_unavailable", "It is not known yet whose machine this is.", "Ask again.", retry_after=1)


def unavailable() -> Refusal:
    return Refusal(503, "Unavailable", "ks_unavailable", "The gateway's database does not answer.", "Ask again.", retry_after=1)
