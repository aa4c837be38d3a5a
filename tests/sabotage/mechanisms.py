"""One function per mechanism: it switches the mechanism off in this process."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch


def resume_boots_afresh() -> None:
    """A resume starts the image anew instead of loading the saved moment."""
    from workers.machine.qemu.driver import QemuDriver

    def boot_instead(self: Any, runtime: Path, spec: Any, image: Any, saved: Any, *, timeout_seconds: float) -> Any:
        return self.boot(runtime, spec, image, timeout_seconds=timeout_seconds)

    patch.object(QemuDriver, "resume", boot_instead).start()


def resumes_the_first_checkpoint() -> None:
    """A resume takes the session's oldest checkpoint, whichever was asked for: later saves count for nothing."""
    from checkpoints_app.models import Checkpoint
    from checkpoints_app.services import checkpoint as checkpoints

    def oldest(session: Any, checkpoint_id: str) -> Any:
        return Checkpoint.objects.select_related("pin").filter(session=session, state="published").order_by("created_at").first()

    patch.object(checkpoints, "restorable", oldest).start()


def nobody_takes_up_lost_work() -> None:
    """The sweep does not ring for work whose worker is gone."""
    from workers import sweep

    patch.object(sweep, "sweep", lambda: None).start()


def cached_images_are_believed() -> None:
    """A cached image is used without comparing it with the digest taken when it was assembled."""
    from workers.cache import files

    def believe(kind: str, name: str) -> Path | None:
        path = files.place(kind, name)
        return path if path.exists() else None

    patch.object(files, "lookup", believe).start()


def pins_are_not_compared() -> None:
    """A resume starts whatever the host has, without asking whether the checkpoint was taken on the same."""
    from workers.operations import waking

    patch.object(waking, "require_pin", lambda *_: None).start()


def clones_are_left_as_they_were() -> None:
    """A fork's child keeps its parent's identity, and each machine has the same vmgenid: the guest does not see that it is another one."""
    from dataclasses import replace

    from workers.machine.qemu import machine
    from workers.machine.qemu.platform import PLATFORMS, X86_64

    (device,) = X86_64.devices
    PLATFORMS["x86_64"] = replace(X86_64, devices=({**device, "guid": "00000000-0000-0000-0000-000000000001"},))
    patch.object(machine, "give_identity", lambda *_: None).start()


MECHANISMS: Mapping[str, Callable[[], None]] = {
    "resume_boots_afresh": resume_boots_afresh,
    "resumes_the_first_checkpoint": resumes_the_first_checkpoint,
    "nobody_takes_up_lost_work": nobody_takes_up_lost_work,
    "cached_images_are_believed": cached_images_are_believed,
    "pins_are_not_compared": pins_are_not_compared,
    "clones_are_left_as_they_were": clones_are_left_as_they_were,
}
