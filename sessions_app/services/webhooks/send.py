"""One attempt to hand a message over. Knows no database: it runs in threads, and what comes of it is written by who started it."""

import time
from dataclasses import dataclass

import urllib3
from urllib3.exceptions import HTTPError

from sessions_app.services.webhooks import signature, target
from sessions_app.services.webhooks.target import Target, Unreachable

#: Longest wait for a connection, and for the whole answer.
CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 8.0
#: Of an answer only the status counts; so much of its body is read, so that a connection is not held by an endless one.
_ANSWER_BYTES = 4096
_GONE = 410
_RETRY_AFTER_MOST = 86_400


@dataclass(frozen=True)
class Message:
    """What is sent: everything that an attempt needs, as values."""

    id: str
    attempt: int
    url: str
    body: bytes
    secrets: tuple[bytes, ...]


@dataclass(frozen=True)
class Outcome:
    """`error` is empty iff the endpoint took it. `gone`: it says that it wants nothing any more. `wait`: seconds that it asks for."""

    status: int | None
    error: str
    gone: bool = False
    wait: int | None = None


def send(message: Message) -> Outcome:
    """Never raises for what the other side does."""
    try:
        goal = target.parse(message.url)
        return _post(goal, target.resolve(goal), message)
    except Unreachable as error:
        return Outcome(None, str(error))
    except HTTPError as error:
        return Outcome(None, f"no answer: {type(error).__name__}")
    except Exception as error:  # a URL that a later version refuses, a codec's fault: told, and tried again
        return Outcome(None, f"not sent: {type(error).__name__}")


def _post(goal: Target, address: str, message: Message) -> Outcome:
    """To the address that was judged; the certificate is checked against the name. Redirects are not followed."""
    timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS, total=ANSWER_SECONDS)
    headers = {
        "Host": goal.host if goal.port in (80, 443) else f"{goal.host}:{goal.port}",
        "Content-Type": "application/json",
        "User-Agent": "KeepState-Webhooks/1",
        **signature.headers(message.id, int(time.time()), message.body, list(message.secrets)),
    }
    if goal.scheme == "https":
        pool: urllib3.HTTPConnectionPool = urllib3.HTTPSConnectionPool(
            address, goal.port, timeout=timeout, assert_hostname=goal.host, server_hostname=goal.host
        )
    else:
        pool = urllib3.HTTPConnectionPool(address, goal.port, timeout=timeout)
    with pool:
        answer = pool.urlopen(
            "POST",
            goal.path,
            body=message.body,
            headers=headers,
            redirect=False,
            retries=False,
            preload_content=False,
            assert_same_host=False,
        )
        try:
            answer.read(_ANSWER_BYTES)
        finally:
            answer.close()
    if 200 <= answer.status < 300:
        return Outcome(answer.status, "")
    return Outcome(
        answer.status, f"answered {answer.status}", gone=answer.status == _GONE, wait=_wait(answer.headers.get("Retry-After", ""))
    )


def _wait(said: str) -> int | None:
    return min(int(said), _RETRY_AFTER_MOST) if said.isascii() and said.isdecimal() and len(said) < 9 else None
