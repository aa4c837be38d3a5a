"""Which host this is, and where its files lie.

<var>/host/<host id>/instance                      which installation this is, whatever id it runs under
<var>/host/<host id>/machines/<session>.<epoch>/   runtime directories, one per machine that was ever started here
<var>/host/<host id>/net/<session>.<epoch>         the network namespace of that machine
<var>/host/<host id>/staging/<operation>.<token>/  what a save holds before it is published
<var>/host/<host id>/cache/                        assembled images, by content
"""

import os
import re
from functools import cache
from pathlib import Path

from django.conf import settings

SAFE = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@cache
def host_id() -> str:
    """KEEPSTATE_HOST_ID, or an id drawn once and kept beside the state. Queues and runtime directories carry it."""
    wanted: str = settings.KEEPSTATE_HOST_ID
    file = Path(settings.KEEPSTATE_VAR) / "host_id"
    if not wanted:
        wanted = _drawn(file, "h-" + os.urandom(4).hex())
    if not SAFE.fullmatch(wanted):
        raise ValueError(f"host id {wanted!r}: use 1 to 40 of a-z, 0-9 and '-' (KEEPSTATE_HOST_ID, or the file {file})")
    return wanted


def instance() -> str:
    """Which installation this is: drawn once in the host's own directory, so that two of them under one id are told apart."""
    return _drawn(host_directory() / "instance", os.urandom(16).hex())


def _drawn(file: Path, text: str) -> str:
    """What the file says, once and for all; `text` if nobody has written it yet.

    Workers that start together agree: the file has its name only once it is whole, and who comes second keeps the first's.
    """
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        drawn = file.with_name(f"{file.name}.{os.urandom(4).hex()}")
        drawn.write_text(text)
        try:
            os.link(drawn, file)
        except FileExistsError:
            pass
        finally:
            drawn.unlink()
    return file.read_text().strip()


def host_directory() -> Path:
    return directory_of(host_id())


def directory_of(host: str) -> Path:
    """Where that host's files lie if it is on this machine, below the same root."""
    return Path(settings.KEEPSTATE_VAR) / "host" / host


def machines_directory() -> Path:
    return host_directory() / "machines"


def networks_directory() -> Path:
    return host_directory() / "net"


def staging_directory() -> Path:
    return host_directory() / "staging"


def cache_directory() -> Path:
    return host_directory() / "cache"


def images_directory() -> Path:
    return Path(settings.KEEPSTATE_IMAGES)


def runtime_directory(session_id: str, epoch: int) -> Path:
    """Where the machine of that epoch lives; no two machines ever share one."""
    return machines_directory() / f"{session_id}.{epoch}"


def epoch_of(runtime: Path) -> int | None:
    """The epoch in a runtime directory's name; None for a name that is not ours."""
    _, _, epoch = runtime.name.partition(".")
    return int(epoch) if epoch.isascii() and epoch.isdecimal() else None


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
