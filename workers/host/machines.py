"""The machines of this host: what a session's consists of, whether it lives, and how it is ended."""

import logging
import shutil
from pathlib import Path

from sessions_app.errors import FleetUnavailable
from sessions_app.models import Session
from workers.guest.errors import ImageError
from workers.guest.image import load_image
from workers.host import lazy
from workers.host.drivers import driver
from workers.host.identity import epoch_of, images_directory, machines_directory, networks_directory, runtime_directory
from workers.machine.driver import GuestImage, Machine, MachineError, MachineSpec
from workers.machine.network import namespace
from workers.machine.process import alive

log = logging.getLogger(__name__)


def image_of(session: Session) -> GuestImage:
    """Raises FleetUnavailable if this host has no whole copy of the session's image."""
    directory = images_directory() / session.image_digest
    named = f"the image {session.image_name} {session.image_digest[:12]}"
    if not (directory / "image.json").exists():
        raise FleetUnavailable(
            f"This host does not have {named}. Nothing was started.",
            next_action=f"Copy the directory {session.image_digest} of a host that has it to this host's images, then ask again.",
        )
    try:
        return load_image(directory)
    except ImageError as error:
        log.exception("image not usable", extra={"image": session.image_digest})
        raise FleetUnavailable(
            f"This host's copy of {named} is not whole. Nothing was started.",
            next_action=f"Replace the directory {session.image_digest} among this host's images by a whole copy, then ask again.",
        ) from error


def spec_of(session: Session, *, network: bool = True) -> MachineSpec:
    return MachineSpec(session_id=session.id, memory_bytes=session.memory_bytes, cpus=session.cpus, network=network)


def machine_of(session: Session) -> Machine | None:
    """The live machine of the session's present epoch on this host, or None."""
    return driver().attach(runtime_directory(session.id, session.epoch))


def end(runtime: Path) -> None:
    """Kill the machine of that directory, if one lives, then remove its network and the directory. Safe to repeat.

    Raises MachineError, and leaves the directory, if a process lives there that cannot be named or does not go.
    """
    machine = driver().attach(runtime)
    if machine is not None:
        machine.kill()
    elif alive.is_held(runtime):
        raise MachineError("kill_failed", f"Something holds {runtime}/alive.lock and no record names it; nothing was ended.")
    namespace.remove(networks_directory() / runtime.name)
    was_lazy = bool(lazy.used_by(runtime))
    shutil.rmtree(runtime, ignore_errors=True)
    if was_lazy:
        lazy.end_unused()


def end_all(session_id: str, *, until_epoch: int) -> None:
    """End the session's machines here, of that epoch and of older ones: who comes late harms no machine that was started since."""
    for runtime in sorted(machines_directory().glob(f"{session_id}.*")):
        epoch = epoch_of(runtime)
        if epoch is not None and epoch <= until_epoch:
            end(runtime)


def kill_all(session_id: str, *, until_epoch: int) -> None:
    """As `end_all`, but nothing is removed: somebody may still be at work in a directory. One that does not go is told and left."""
    for runtime in sorted(machines_directory().glob(f"{session_id}.*")):
        epoch = epoch_of(runtime)
        if epoch is not None and epoch <= until_epoch:
            kill(runtime)


def kill(runtime: Path) -> None:
    """The machine of that directory, if one lives; the directory stays. One that does not go is told and left."""
    machine = driver().attach(runtime)
    try:
        if machine is not None:
            machine.kill()
    except MachineError:
        log.warning("a machine did not end", extra={"directory": runtime.name}, exc_info=True)
