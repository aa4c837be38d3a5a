"""What a power loss leaves of a directory: the bytes and the names that were made durable, and the names whose removal was not.

The journal stands for the disk's own memory (as in tests/gates/store/victim.py); the shelter keeps every file that was ever durable by a
second name, so that one which was removed, and whose directory was not synced since, can come back.
"""

import json
import os
import shutil
import stat
from pathlib import Path


class Disk:
    """Of the store at `root`; `journal` and `shelter` lie beside it, on the same file system."""

    def __init__(self, root: Path, journal: Path, shelter: Path):
        self.root, self.journal, self.shelter = root, journal, shelter
        shelter.mkdir(exist_ok=True)

    def note(self, path: Path) -> None:
        """The bytes of this file, or the names in this directory, are durable now."""
        info = path.stat()
        names = {entry.name: entry.inode() for entry in os.scandir(path)} if stat.S_ISDIR(info.st_mode) else None
        if names is None and not (self.shelter / str(info.st_ino)).exists():
            _link(path, self.shelter / str(info.st_ino))
        with open(self.journal, "a", encoding="ascii") as file:
            file.write(json.dumps({"inode": info.st_ino, "names": names}) + "\n")

    def note_everything(self) -> None:
        for path in (self.root, *self.root.rglob("*")):
            self.note(path)

    def lose_power(self) -> None:
        bytes_kept: set[int] = set()
        names_kept: dict[int, dict[str, int]] = {}
        for line in self.journal.read_text(encoding="ascii").splitlines():
            noted = json.loads(line)
            if noted["names"] is None:
                bytes_kept.add(noted["inode"])
            else:
                names_kept[noted["inode"]] = noted["names"]
        for directory, children, files in os.walk(self.root):
            here = Path(directory)
            self._restore_names(here, set(children + files), names_kept.get(here.stat().st_ino, {}))
            children[:] = [name for name in children if (here / name).exists()]
        for path in self.root.rglob("*"):
            if path.is_file() and path.stat().st_ino not in bytes_kept:
                os.truncate(path, 0)

    def _restore_names(self, directory: Path, there: set[str], kept: dict[str, int]) -> None:
        for name in there - set(kept):
            shutil.rmtree(directory / name) if (directory / name).is_dir() else (directory / name).unlink()
        for name in set(kept) - there:
            sheltered = self.shelter / str(kept[name])
            if sheltered.exists():  # else a directory, and what was in it was removed before
                _link(sheltered, directory / name)


_link = os.link  # the victim watches the other one
