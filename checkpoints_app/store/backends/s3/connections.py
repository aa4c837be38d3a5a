"""Connections that were lost without a word: a NAT or load balancer forgets one, and what is sent on it is never answered.

Three bounds on what that costs: a connection is kept for less time than they remember it, a read that is asked for the first time waits
only briefly for its next byte, and when one connection broke the other idle ones are left too (Bucket), for what broke it has broken them.

Socket options would tell a lost connection from a slow server for writes too, but botocore lets none through beside SO_KEEPALIVE, whose
first probe Linux sends after two hours: TCP_KEEPIDLE and TCP_USER_TIMEOUT cannot be set without its private parts. So a put on a connection
that was lost while it was young waits for an answer as long as on any other, once.
"""

import time
from typing import Any

from .retry import FIRST_ATTEMPT

_READS = {"GET", "HEAD"}


def watch(client: Any, *, first_read_seconds: float, kept_seconds: float) -> None:
    """From now on: a read of a first attempt waits so long for each next byte, and no connection is used that was made so long ago."""
    made = time.monotonic()

    def before_call(model: Any, context: dict[str, Any], **_: Any) -> None:
        nonlocal made
        if time.monotonic() - made > kept_seconds:
            leave_idle(client)
            made = time.monotonic()
        if FIRST_ATTEMPT.get() and model.http["method"] in _READS:
            context["read_timeout"] = first_read_seconds  # instead of the client's: github.com/boto/botocore/pull/3770

    client.meta.events.register("before-call.s3", before_call)


def leave_idle(client: Any) -> None:
    """What is open now is asked nothing more, though an answer that is on its way still comes. The next request makes a new connection."""
    client.close()
