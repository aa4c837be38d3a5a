"""A worker that erases a checkpoint, keeps a journal of what is durable, and dies of SIGKILL at a step of its own or after a system call.

Run as `python -m tests.gates.erasure.victim_power ID JOURNAL SHELTER STEP TIMES SABOTAGE`, with the gate's database, store and
master key in its environment. Steps besides the erasure's own: link, unlink, fsync, each told as soon as the call has returned.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.gates.erasure.power import Disk

replace = setattr  # of what belongs to the product, in this process alone
DieAt = Callable[[str], None]


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
    from checkpoints_app.store.backends import local

    if kind == "bytes_not_synced":
        replace(local, "sync_file", lambda path: None)
    elif kind == "names_not_synced":
        replace(local, "sync_directories", lambda directories, root: None)
    elif kind == "removals_not_synced":

        def only_unlinked(self: local.LocalBackend, key: str) -> bool:
            local.path_of(self.root, key).unlink(missing_ok=True)
            return True

        replace(local.LocalBackend, "delete", only_unlinked)


def main() -> None:
    row_id, journal, shelter, step, times, kind = sys.argv[1:]
    import django

    django.setup()
    from checkpoints_app.models import Checkpoint
    from checkpoints_app.services import erase, storage
    from checkpoints_app.store import LocalBackend

    backend = storage.backend()
    assert isinstance(backend, LocalBackend)
    left = int(times)

    def die_at(name: str) -> None:
        nonlocal left
        if name == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    disk = Disk(backend.root, Path(journal), Path(shelter))
    disk.note_everything()  # what was there before survives
    sabotage(kind)
    watch(disk, die_at)
    erase.erase_checkpoint(Checkpoint.objects.get(id=row_id), step=die_at)


if __name__ == "__main__":
    main()
