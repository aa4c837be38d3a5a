"""The machines of this host: what a session's consists of, whether it lives, and how it is ended."""

import shutil
from pathlib import Path

from sessions_app.errors import FleetUnavailable
from sessions_app.models import Session
from workers.guest.image import load_image
from workers.host.drivers import driver
from workers.host.identity import images_directory, machines_directory, runtime_directory
from workers.machine.driver import GuestImage, Machine, MachineSpec


def image_of(session: Session) -> GuestImage:
    directory = images_directory() / session.image_digest
    if not (directory / "image.json").exists():
        raise FleetUnavailable(
            f"This host does not have the image {session.image_name} {session.image_digest[:12]}. Nothing was started.",
            next_action="Bring the image to the host (./keepstate images), then ask again.",
        )
    return load_image(directory)


def spec_of(session: Session) -> MachineSpec:
    return MachineSpec(session_id=session.id, memory_bytes=session.memory_bytes, cpus=session.cpus)


def machine_of(session: Session) -> Machine | None:
    """The live machine of the session's present epoch on this host, or None."""
    return driver().attach(runtime_directory(session.id, session.epoch))


def directories_of(session_id: str) -> list[Path]:
    """Every runtime directory of a session here, whatever its epoch."""
    return sorted(machines_directory().glob(f"{session_id}.*"))


def end(runtime: Path) -> None:
    """Kill the machine of that directory, if one lives, then remove the directory. Safe to repeat."""
    machine = driver().attach(runtime)
    if machine is not None:
        machine.kill()
    shutil.rmtree(runtime, ignore_errors=True)


def end_all(session_id: str) -> None:
    for runtime in directories_of(session_id):
        end(runtime)
