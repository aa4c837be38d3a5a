"""The client's protocol number: absent is taken as present; one that is too old is refused by name, and nothing is done."""

from rest_framework.request import Request

from sessions_app.errors import ClientTooOld, Invalid
from sessions_app.services.capability import MINIMUM_CLIENT_PROTOCOL, PROTOCOL, PROTOCOL_HEADER


def require(request: Request) -> None:
    """Raises Invalid or ClientTooOld. A newer client is served: it knows what to leave out."""
    said = request.headers.get(PROTOCOL_HEADER)
    if said is None:
        return
    if not (said.isascii() and said.isdecimal() and len(said) <= 6):
        raise Invalid(f"{PROTOCOL_HEADER} is a whole number. Nothing was done.", next_action=f"Send {PROTOCOL}, or leave the header out.")
    if int(said) < MINIMUM_CLIENT_PROTOCOL:
        raise ClientTooOld(
            f"This service takes clients of protocol {MINIMUM_CLIENT_PROTOCOL} or later; this one speaks {int(said)}. Nothing was done.",
            next_action="Update the client.",
            facts={"minimum_client": MINIMUM_CLIENT_PROTOCOL, "current": PROTOCOL},
        )
