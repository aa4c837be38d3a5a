"""Which hosts a root runs: their ids, and the lock by which each has one worker set there."""

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from keepstate_site.stack import lock
from keepstate_site.stack.errors import StackError
from keepstate_site.stack.paths import prepare, write_once

MOST = 16  # on one machine: each has three processes of some 100 MiB
_SAFE = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


def ids(root: Path, count: int) -> list[str]:
    """One host has the root's own id, several have h-1, h-2 and so on. Raises StackError."""
    if not 0 <= count <= MOST:
        raise StackError(f"--hosts takes 0 to {MOST}. Nothing was started.")
    if count > 1 and os.environ.get("KEEPSTATE_HOST_ID"):
        raise StackError(
            f"KEEPSTATE_HOST_ID names one host, and {count} were asked for. Nothing was started. Unset it, or leave --hosts out."
        )
    return [own_id(root)] if count == 1 else [f"h-{number}" for number in range(1, count + 1)]


def own_id(root: Path) -> str:
    """KEEPSTATE_HOST_ID, or the id that was drawn once for this root."""
    file = prepare(root).root / "host_id"
    if given := os.environ.get("KEEPSTATE_HOST_ID", "").strip():
        return checked(given)
    write_once(file, f"h-{secrets.token_hex(4)}")
    return checked(file.read_text().strip())


def checked(host_id: str) -> str:
    """Raises StackError for what is no host id."""
    if not _SAFE.fullmatch(host_id):
        raise StackError(f"{host_id!r} is no host id: use 1 to 40 of a-z, 0-9 and '-'. Nothing was started.")
    return host_id


@contextmanager
def held(root: Path, host_ids: Sequence[str]) -> Iterator[None]:
    """Raises StackError where a worker set of one of them runs on this root already."""
    paths = prepare(root)
    with ExitStack() as locks:
        for host_id in host_ids:
            locks.enter_context(lock.exclusive(paths, "host", lock.of_host(host_id)))
        yield
