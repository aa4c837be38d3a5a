"""Where the stack's files lie. Everything hangs below one root, KEEPSTATE_VAR (default `var` in the checkout)."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Paths:
    root: Path

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def images(self) -> Path:
        """Guest images are large and content-addressed: a test's own root may borrow another's (KEEPSTATE_IMAGES)."""
        return Path(os.environ.get("KEEPSTATE_IMAGES") or self.root / "images").absolute()

    @property
    def instance(self) -> str:
        """This root's own name, drawn once: it stays when the directory is moved, and a new root at an old path is another one."""
        return (self.root / "instance_id").read_text().strip()


def prepare(root: Path) -> Paths:
    """Create what is missing of the root; idempotent, and safe when two processes do it at once."""
    paths = Paths(root.absolute())
    for directory, mode in ((paths.root, 0o755), (paths.run, 0o700), (paths.logs, 0o700), (paths.secrets, 0o700)):
        directory.mkdir(mode=mode, parents=True, exist_ok=True)
    write_once(paths.root / "instance_id", secrets.token_hex(6))
    return paths


def default_root() -> Path:
    return Path(os.environ.get("KEEPSTATE_VAR") or PROJECT / "var").absolute()


def write_once(file: Path, text: str) -> None:
    """Write a 0600 file unless it exists. A reader sees nothing or all of it, and the first of two writers wins."""
    if file.exists():
        return
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    write_private(draft, text)
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def replace(file: Path, text: str) -> None:
    """Write a 0600 file in one step, replacing what was there."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    write_private(draft, text)
    draft.replace(file)


def write_private(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text + "\n")
        stream.flush()
        os.fsync(stream.fileno())
