"""A worker that erases a checkpoint, keeps a journal of what is durable, and dies of SIGKILL at a step of its own or after a system call.

Steps besides the erasure's own: link, unlink, fsync, each told as soon as the call has returned.
"""

import os
from pathlib import Path

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import erase
from checkpoints_app.store.backends import local
from tests.gates.erasure.power import Disk
from tests.gates.erasure.victim import DieAt, dying
from tests.support import forked

replace = setattr  # of what belongs to the product, in this process alone


def watch(disk: Disk, die_at: DieAt) -> None:
    fsync = os.fsync

    def noted_fsync(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_relative_to(disk.root):
            disk.note(path)
            die_at("fsync")

    def told(name: str) -> None:
        right = getattr(os, name)

        def call(*arguments: object, **options: object) -> None:
            right(*arguments, **options)
            die_at(name)

        replace(os, name, call)

    replace(os, "fsync", noted_fsync)
    for name in ("link", "unlink"):
        told(name)


def sabotage(kind: str) -> None:
    """The faults that the gate must notice."""
    if kind == "bytes_not_synced":
        replace(local, "sync_file", lambda path: None)
    elif kind == "names_not_synced":
        replace(local, "sync_directories", lambda directories, root: None)
    elif kind == "removals_not_synced":

        def only_unlinked(self: local.LocalBackend, key: str) -> bool:
            local.path_of(self.root, key).unlink(missing_ok=True)
            return True

        replace(local.LocalBackend, "delete", only_unlinked)


def erasing(row_id: str, disk: Disk, step: str, times: int, kind: str) -> int:
    """How the process ended that erased the checkpoint: negative is the signal."""

    def work() -> None:
        disk.note_everything()  # what was there before survives
        sabotage(kind)
        die_at = dying(step, times)
        watch(disk, die_at)
        erase.erase_checkpoint(Checkpoint.objects.get(id=row_id), step=die_at)

    return forked.run(work)
