"""The web process's side of a relay: one question, one answer; errors as the service's own."""

import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sessions_app.errors import (
    Conflict,
    FleetUnavailable,
    GuestSilent,
    Invalid,
    MachineLost,
    NotFound,
    PathExists,
    ServiceError,
)
from sessions_app.models import Session
from sessions_app.services.database import give_back_connection
from workers.host.identity import directory_of
from workers.models import HostRelay
from workers.relay.address import reach
from workers.relay.dial import dial
from workers.relay.trust import shared_key
from workers.wire import messages
from workers.wire.stream import Broken

log = logging.getLogger(__name__)

#: Longer than the longest exchange with a guest, so that its own error arrives.
ANSWER_SECONDS = 200.0


def ask(session: Session, verb: str, arguments: Mapping[str, Any], blob: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """Raises ServiceError. FleetUnavailable: nothing was done, or (said so) it is not known."""
    with open_link(session) as sock:
        return question(sock, session, verb, arguments, blob)


def open_link(session: Session) -> socket.socket:
    """A connection to the relay of the session's host: its socket where this process may enter the host's directory, else by the network.

    Raises FleetUnavailable.
    """
    directory = directory_of(session.host_id)
    try:
        return reach(directory) if session.host_id and os.access(directory, os.X_OK) else _dial(session.host_id)
    except OSError as error:
        raise FleetUnavailable(
            "The worker that reaches the machines of this host does not run. Nothing was done.",
            next_action="Ask again in a moment; if it repeats, start the host's io worker.",
        ) from error


def _dial(host_id: str) -> socket.socket:
    """Raises FleetUnavailable, OSError."""
    relay = HostRelay.objects.filter(host=host_id).first()
    if relay is None:
        raise FleetUnavailable(
            "The session's machine runs on another host, whose relay does not listen on the network. Nothing was done.",
            next_action="Use exec, which reaches every host; or tell the operator (KEEPSTATE_RELAY_LISTEN).",
        )
    master = shared_key(relay)
    if master is None:
        log.error("a host's relay has another master key than this process", extra={"host": host_id})
        raise FleetUnavailable(
            "The session's host has another master key than the service that you asked, and would not answer it. Nothing was done.",
            next_action="Use exec, which reaches every host; and tell the operator (KEEPSTATE_MASTER_KEY).",
        )
    give_back_connection()  # a host that hesitates must not keep others from the database
    return dial((relay.address, relay.port), relay.fingerprint, master)


def question(
    sock: socket.socket, session: Session, verb: str, arguments: Mapping[str, Any], blob: bytes = b""
) -> tuple[dict[str, Any], bytes]:
    """Prerequisite: nothing was said on the connection yet. Raises ServiceError."""
    sock.settimeout(ANSWER_SECONDS)
    try:
        with suppress(BrokenPipeError):  # a relay that is busy answers without having read the question
            messages.send(sock, {"verb": verb, "session": session.id, "epoch": session.epoch, **arguments}, blob)
        header, answer = messages.receive(sock)
    except (Broken, OSError) as error:
        raise FleetUnavailable(
            "The worker that reaches the machine ended before it answered. Whether anything was done is not known.",
            next_action="Look, then ask again: reading and writing a file may be repeated.",
        ) from error
    if header.get("ok") is not True:
        raise refusal(str(header.get("code")), str(header.get("message")))
    return header, answer


def refusal(code: str, message: str) -> ServiceError:
    """The relay's code as an error of the contract."""
    match code:
        case "absent":
            return NotFound(message, code="ks_path_absent", next_action="List the directory: GET .../files?path=.")
        case "outside" | "not_a_directory" | "is_a_directory" | "not_a_file" | "is_a_link":
            return Invalid(f"{message} Nothing was read or written.", code="ks_path_refused")
        case "exists":
            return PathExists(message, next_action="Leave out If-None-Match to replace it.")
        case "changed":
            return Conflict(message, code="ks_path_changed", next_action="Ask again.")
        case "machine_dead":
            return MachineLost(message, next_action="Resume the session from its last checkpoint.")
        case "busy" | "not_offered":
            return FleetUnavailable(message, next_action="Ask again later.")
        case _:
            return GuestSilent(
                f"The guest did not do as it should: {message}", next_action="Ask again; if it repeats, look at the machine with exec."
            )
