"""The process that serves one lazy image: a file of verified bytes that a hypervisor maps while the rest of it streams in.

It outlives the worker that started it (own session, the alive-lock of its directory in its hands) and is ended when no machine uses its
image. When every unit has been verified the file joins the host cache under its ordinary name; what has it mapped here is served from
that same file until the end.
"""

import ctypes
import gc
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from workers.cache.joining import join_at
from workers.lazy import status
from workers.lazy.groups import grouped
from workers.lazy.image import Failed, LazyImage
from workers.lazy.loader import Loader
from workers.lazy.plan import Plan, receive
from workers.lazy.status import State
from workers.lazy.stream import stream
from workers.lazy.where import opened

log = logging.getLogger("keepstate.lazy")


def main(directory: Path, plan_fd: int, control: socket.socket) -> None:
    """`control` tells when the plan is written, and is told when the image can be mapped. Returns when the image is unmounted."""
    from workers.lazy import mount  # while the plan is still being made

    if control.recv(1) != b"g":
        return  # whoever wanted it gave up
    plan = receive(plan_fd)
    os.close(plan_fd)
    target = Path(plan.told["target"].format(pid=os.getpid()))
    fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.ftruncate(fd, plan.length_bytes)
    try:
        groups = grouped(plan.packs, plan.locations, plan.indexes)
        loader = Loader(plan, opened(plan.store), fd)
        image = LazyImage(groups, loader, fd, lambda failed: status.write(directory, State.FAILED, **status.why(failed.cause)))
        status.write(directory, State.STREAMING, groups=len(groups))

        def work() -> None:
            _stream(directory, plan, image, lambda: stream(image, groups, loader, plan.first), target)

        def mounted() -> None:
            threading.Thread(target=work, name="stream", daemon=True).start()
            control.sendall(b"m")
            control.close()

        mount.serve(image, plan.length_bytes, directory / status.MOUNT, mounted)
    finally:
        target.unlink(missing_ok=True)


def _stream(directory: Path, plan: Plan, image: LazyImage, bring_all: Callable[[], None], target: Path) -> None:
    try:
        bring_all()
        joined = _join(target, Path(plan.told["name"]))
        image.let_go()
        status.write(directory, State.COMPLETE, joined=joined)
    except Failed as failed:
        log.error("the image cannot be completed: %s", failed)  # its status was written when it failed
        return
    except Exception as error:
        log.exception("the stream ended")
        status.write(directory, State.FAILED, **status.why(error))
        return
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _join(target: Path, name: Path) -> bool:
    """Whether the image is in the host cache now. It serves its machines all the same if it is not."""
    try:
        join_at(name, target)
        return True
    except OSError:
        log.exception("the image did not join the host cache")
        return False


def run(arguments: list[str]) -> None:
    directory, plan_fd, control_fd = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    main(directory, plan_fd, socket.socket(fileno=control_fd))
