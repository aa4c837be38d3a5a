"""The programs that the store is measured beside, as the distribution has them, each told what suits images best.

Each is sealed with a key where it can be (casync cannot). Their options are in the argument lists, their versions in the report.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.moments import Moment
from tests.bench.ours import IMAGES
from tests.bench.watched import Watched, watch

PROJECT = Path(__file__).resolve().parents[2]
PEERS = ("borg-fixed", "borg", "restic", "casync")
NEEDED = ("restic", "borg", "casync")


@dataclass
class Store:
    """One program with a repository of its own below `root`. `save` and `restore` do the two images of a moment."""

    name: str
    root: Path
    saves: list[Watched] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)  # what ours says of each save
    bytes_after: list[int] = field(default_factory=list)

    @property
    def repository(self) -> Path:
        return self.root / "repository"

    def prepare(self) -> None:
        self.root.mkdir(parents=True)

    def save(self, number: int, moment: Moment) -> Watched:
        done = self._all(self.save_commands(number), moment.directory, cores=2)
        self.saves.append(done)
        self.bytes_after.append(sum(path.stat().st_size for path in self.repository.rglob("*") if path.is_file()))
        return done

    def restore(self, number: int, target: Path, cores: int) -> Watched:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        return self._all(self.restore_commands(number, target, cores), target, cores=cores)

    def objects(self) -> int:
        return sum(1 for path in self.repository.rglob("*") if path.is_file())

    def _all(self, commands: Sequence[Sequence[str]], directory: Path, cores: int) -> Watched:
        done = [watch(argv, directory=directory, environment=self.environment(), cores=cores) for argv in commands]
        return Watched(
            sum(one.seconds for one in done),
            sum(one.cpu_seconds for one in done),
            max(one.peak_mib for one in done),
            "".join(one.output for one in done),
        )

    def environment(self) -> Mapping[str, str]:
        secret = {"RESTIC_PASSWORD": "bench", "BORG_PASSPHRASE": "bench"}
        return {**secret, "BORG_BASE_DIR": str(self.root / "home"), "XDG_CACHE_HOME": str(self.root / "cache")}

    def save_commands(self, number: int) -> list[list[str]]:
        raise NotImplementedError

    def restore_commands(self, number: int, target: Path, cores: int) -> list[list[str]]:
        raise NotImplementedError


class Ours(Store):
    def save(self, number: int, moment: Moment) -> Watched:
        done = super().save(number, moment)
        self.told.append(json.loads(done.output))
        return done

    def save_commands(self, number: int) -> list[list[str]]:
        return [self._python("save", ".", self.told[number - 1]["manifest"] if number else "")]

    def restore_commands(self, number: int, target: Path, cores: int) -> list[list[str]]:
        return [self._python("restore", self.told[number]["manifest"], str(target), str(cores))]

    def environment(self) -> Mapping[str, str]:
        return {"PYTHONPATH": str(PROJECT)}

    def save_part(self, number: int, moment: Moment, units: int) -> dict[str, Any]:
        """What it says of a save of the first so many written units, beside that moment's own. The repository grows by it."""
        argv = self._python("save", ".", self.told[number - 1]["manifest"], str(units))
        told: dict[str, Any] = json.loads(self._all([argv], moment.directory, cores=2).output)
        return told

    def _python(self, verb: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tests.bench.ours", verb, str(self.repository), *arguments]


class Restic(Store):
    def prepare(self) -> None:
        super().prepare()
        self._all([["restic", "init", "-q", "-r", str(self.repository), "--repository-version", "2"]], self.root, cores=2)

    def save_commands(self, number: int) -> list[list[str]]:
        return [["restic", "backup", "-q", "-r", str(self.repository), "--tag", str(number), *_files()]]

    def restore_commands(self, number: int, target: Path, cores: int) -> list[list[str]]:
        return [["restic", "restore", "-q", "-r", str(self.repository), "--tag", str(number), "--target", str(target), "latest"]]


@dataclass
class Borg(Store):
    options: tuple[str, ...] = ()

    def prepare(self) -> None:
        super().prepare()
        self._all([["borg", "init", "--encryption", "repokey-blake2", str(self.repository)]], self.root, cores=2)

    def save_commands(self, number: int) -> list[list[str]]:
        return [["borg", "create", *self.options, f"{self.repository}::{number}", *_files()]]

    def restore_commands(self, number: int, target: Path, cores: int) -> list[list[str]]:
        return [["borg", "extract", "--sparse", f"{self.repository}::{number}"]]


class Casync(Store):
    def save_commands(self, number: int) -> list[list[str]]:
        return [["casync", "make", *self._store(), str(self._index(number, name)), f"{name}.raw"] for name in IMAGES]

    def restore_commands(self, number: int, target: Path, cores: int) -> list[list[str]]:
        return [["casync", "extract", *self._store(), str(self._index(number, name)), f"{name}.raw"] for name in IMAGES]

    def prepare(self) -> None:
        super().prepare()
        self.repository.mkdir()

    def _store(self) -> list[str]:
        return [f"--store={self.repository / 'store.castr'}"]

    def _index(self, number: int, name: str) -> Path:
        return self.repository / f"{number}-{name}.caibx"


def stores(root: Path, beside: Sequence[str] = ()) -> list[Store]:
    """Ours first, then the peers that are named, or all. Raises FileNotFoundError, naming what to install, if one is not there."""
    peers = [
        Borg("borg, fixed 64 KiB chunks", root / "borg-fixed", options=("--sparse", "--chunker-params", "fixed,65536")),
        Borg("borg", root / "borg"),
        Restic("restic", root / "restic"),
        Casync("casync", root / "casync"),
    ]
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        raise FileNotFoundError(f"{', '.join(missing)}: not installed. Get them: apt-get install restic borgbackup casync")
    return [Ours("ours", root / "ours"), *(peer for peer in peers if not beside or peer.root.name in beside)]


def versions() -> list[str]:
    asked = (["restic", "version"], ["borg", "--version"], ["casync", "--version"])
    return [subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[0] for argv in asked]


def _files() -> list[str]:
    return [f"{name}.raw" for name in IMAGES]
