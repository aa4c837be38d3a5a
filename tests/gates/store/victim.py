"""A process that saves a checkpoint and dies of SIGKILL at a named step, keeping a journal of what it made durable.

The journal stands for the disk's own memory: it notes, after each fsync that really returned, which files' bytes and which
directories' names a power loss would spare. Run as `python -m tests.gates.store.victim PLACE JOURNAL PARENT STEP TIMES SABOTAGE`.
"""

import json
import os
import signal
import stat
import sys
from pathlib import Path

from checkpoints_app.store import load_manifest, packer
from checkpoints_app.store.backends import durable, local
from tests.gates.store import victim_s3
from tests.gates.store.moments import NEXT, PACK_UNITS, WRITTEN
from tests.gates.store.places import heard, opened
from tests.store_kit import ACCOUNT, KEYS, save

replace = setattr  # of what belongs to the product, in this process alone


class Journal:
    def __init__(self, path: Path, root: Path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._root = root

    def note(self, path: Path) -> None:
        """These bytes, or these names, are durable now."""
        info = path.stat()
        names = sorted(os.listdir(path)) if stat.S_ISDIR(info.st_mode) else None
        os.write(self._file, json.dumps({"inode": info.st_ino, "names": names}).encode() + b"\n")

    def note_everything(self) -> None:
        for path in (self._root, *self._root.rglob("*")):
            self.note(path)


def watch_syncs(journal: Journal) -> None:
    fsync = os.fsync

    def noted_fsync(descriptor: int) -> None:
        fsync(descriptor)
        journal.note(Path(os.readlink(f"/proc/self/fd/{descriptor}")))

    replace(os, "fsync", noted_fsync)


def sabotage(kind: str) -> None:
    """The faults that the gate must notice."""
    if kind == "nothing_synced":
        for module in (local, durable):
            replace(module, "sync_file", lambda path: None)
    elif kind == "named_before_synced":
        replace(local, "sync_file", lambda path: None)
    elif kind == "directories_not_synced":
        replace(local, "sync_directories", lambda directories, root: None)
    elif kind == "manifest_before_packs":
        publish = local.LocalBatch.publish
        held_back: list[local.LocalBatch] = []

        def publish_in_wrong_order(self: local.LocalBatch) -> None:
            if not held_back:
                held_back.append(self)
                return
            publish(self)

        replace(local.LocalBatch, "publish", publish_in_wrong_order)
        replace(local.LocalBatch, "discard", lambda self: None)


def main() -> None:
    argument, journal, parent_id, step, times, kind = sys.argv[1:]
    place = heard(argument)
    backend = opened(place)
    replace(packer, "PACK_UNITS", PACK_UNITS)
    left = int(times)

    def die_at(name: str) -> None:
        nonlocal left
        if name == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    if isinstance(place, Path):
        noted = Journal(Path(journal), place)
        noted.note_everything()  # what was there before survives
        sabotage(kind)
        watch_syncs(noted)
    else:
        victim_s3.sabotage(kind, die_at)
        victim_s3.watch_uploads(die_at)
    save(backend, load_manifest(backend, KEYS, ACCOUNT, parent_id), NEXT, WRITTEN, step=die_at)


if __name__ == "__main__":
    main()
