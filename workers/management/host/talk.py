"""What the subcommands of `./keepstate host` share: who asks, which host is meant, how it is told."""

import getpass
import json
import time
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.management.base import CommandError

from sessions_app.models import Session
from workers.host.identity import host_id
from workers.models import Host

MIB = 1 << 20
LOOK_SECONDS = 1.0
#: How long `--wait` waits if it is not told.
WAIT_SECONDS = 3600


class Writes(Protocol):
    def write(self, msg: str) -> Any: ...


@dataclass(frozen=True)
class Subcommand:
    """`run` gets where to write and the options; it raises CommandError or ServiceError, which say what was not done."""

    help: str
    arguments: Callable[[ArgumentParser], Any]
    run: Callable[[Writes, dict[str, Any]], None]


def who() -> str:
    return f"command/{getpass.getuser()}"


def named(options: dict[str, Any]) -> Host:
    """The host that was named, or this one. Raises CommandError."""
    wanted = options.get("id") or host_id()
    host = Host.objects.filter(id=wanted).first()
    if host is None:
        raise CommandError(f"The fleet has no host {wanted}. Nothing was done. ./keepstate host list shows those that it has.")
    return host


def session_named(text: str) -> Session:
    """By its id or how that begins. Raises CommandError."""
    found = list(Session.objects.filter(id__startswith=text.removeprefix("session_"))[:2]) if len(text) >= 8 else []
    if len(found) != 1:
        raise CommandError(f"{'More than one session begins' if found else 'No session begins'} with {text}. Nothing was done.")
    return found[0]


def takes_id(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the host's id")


def takes_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="JSON instead of lines")


def takes_wait(parser: ArgumentParser) -> None:
    help_text = f"wait for the end, so many seconds at most ({WAIT_SECONDS} if not told)"
    parser.add_argument("--wait", nargs="?", type=int, const=WAIT_SECONDS, metavar="SECONDS", help=help_text)


def tell(out: Writes, facts: Any) -> None:
    out.write(json.dumps(facts, indent=2))


def wait_for(seconds: int, done: Callable[[], bool]) -> bool:
    """Whether it came to be within the time."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def mib(size: int | None) -> str:
    return "not known" if size is None else f"{size / MIB:.1f} MiB"
