"""Network namespaces of machines, each held by a file: `<host directory>/net/<name of the machine's runtime directory>`.

Nothing runs in such a namespace. It is there while it is mounted on its file, while QEMU has its tap, or while a listener of the gateway's
is open in it, whichever lasts longest. A file that no namespace is mounted on is what a restart of the host, or a worker that died between
the two, has left.

    make       a fresh namespace with one tap device; nothing is routed or forwarded
    QEMU       inherits the tap, and nothing else of it
    gateway    listens inside (listen.py)
    remove     by whoever ends the machine, or sweeps up after somebody who died

Needs CAP_SYS_ADMIN and CAP_NET_ADMIN; `obstacle` says what is missing.
"""

import errno
import logging
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from workers.machine.network import doorbell, tap
from workers.machine.process import libc
from workers.machine.process.threads import apart

DIRECTORY_NAME = "net"
THIS_THREADS = "/proc/thread-self/ns/net"
#: Of a new namespace; forwarding is inherited from the host. IPv6 would only make the two ends talk about themselves.
SETTINGS = {"/proc/sys/net/ipv4/ip_forward": b"0", "/proc/sys/net/ipv6/conf/all/disable_ipv6": b"1"}

log = logging.getLogger(__name__)


def make(namespace: Path) -> int:
    """A new namespace on that file; whatever was there is dropped. Returns the tap's descriptor, which the caller passes on and closes.

    Raises OSError, and has left nothing then. Rings the gateway's doorbell.
    """
    namespace.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _drop(namespace)
    os.close(os.open(namespace, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        fd = apart(lambda: _fill(namespace))
    except BaseException:
        _drop(namespace)
        raise
    doorbell.ring(namespace)
    return fd


def _fill(namespace: Path) -> int:
    """Runs in a thread that ends, and whose namespace this becomes."""
    libc.unshare(libc.CLONE_NEWNET)
    for setting, value in SETTINGS.items():
        _set(setting, value)
    fd = tap.open_tap()
    try:
        libc.mount(THIS_THREADS, str(namespace), libc.MS_BIND)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _set(setting: str, value: bytes) -> None:
    try:
        fd = os.open(setting, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # a kernel without IPv6
    try:
        os.write(fd, value)
    finally:
        os.close(fd)


def remove(namespace: Path) -> None:
    """Take the namespace's file away. Idempotent; a file that cannot be removed is told, and is found by the next sweep.

    A machine that still runs keeps its end, and reaches nobody any more once the gateway has closed its own. Rings the gateway's doorbell.
    """
    try:
        removed = _drop(namespace)
    except OSError:
        log.warning("a machine's network could not be removed", extra={"network": namespace.name}, exc_info=True)
        return
    if removed:
        doorbell.ring(namespace)


def _drop(namespace: Path) -> bool:
    """Whether there was such a file."""
    while True:
        try:
            libc.unmount(str(namespace), libc.MNT_DETACH | libc.UMOUNT_NOFOLLOW)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.EPERM):  # nothing is mounted on it, or we could not have done it
                raise
            break
    try:
        namespace.unlink()
    except FileNotFoundError:
        return False
    return True


def leftovers(directory: Path, machines: Path) -> Iterator[Path]:
    """The namespaces whose machine has no runtime directory among `machines`: that comes first, goes last, and never comes again."""
    for namespace in directory.glob("*"):
        if not (machines / namespace.name).exists():
            yield namespace


@lru_cache(maxsize=1)
def obstacle() -> str | None:
    """What keeps this process from giving machines a network; None if nothing does. Tried, not guessed, once in a worker's life."""
    try:
        apart(_try)
    except OSError as error:
        log.warning("machines have no network: %s", error)
        return f"a network namespace with a tap device cannot be made ({error})"
    return None


def _try() -> None:
    """All that `make` needs leave for, in a view of the mounts that goes with the thread: nothing can be left."""
    libc.unshare(libc.CLONE_NEWNET | libc.CLONE_NEWNS | libc.CLONE_FS)
    libc.mount(None, "/", libc.MS_REC | libc.MS_PRIVATE)
    libc.mount(THIS_THREADS, os.devnull, libc.MS_BIND)
    for setting, value in SETTINGS.items():
        _set(setting, value)
    os.close(tap.open_tap())
