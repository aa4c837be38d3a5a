"""Complete or absent: the lock, the scratch space and the renames behind a build."""

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from workers.guest.commands import as_root, run
from workers.guest.errors import ImageError

SCRATCH = ".building"  # what the holder of the lock works in; whatever lies there when the lock is taken is a dead builder's
LOCK = ".lock"
LONGEST_WAIT_SECONDS = 3600


@contextmanager
def only_builder(images_directory: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the images directory's build lock. The kernel frees it with the last process that holds it: a killed builder's children count.

    Raises ImageError if another builder holds it for an hour.
    """
    with (images_directory / LOCK).open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        until, told = time.monotonic() + LONGEST_WAIT_SECONDS, False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ImageError(f"Another build has held {images_directory / LOCK} for an hour. Nothing was built.") from None
                if not told:
                    say("another build is at work; waiting for it")
                told = True
                time.sleep(0.2)
        sweep(images_directory)
        yield


def sweep(images_directory: Path) -> None:
    """Remove scratch space. Only the holder of the lock may call it."""
    place = images_directory / SCRATCH
    if place.exists():
        owned = all(path.lstat().st_uid == os.geteuid() for path in place.glob("*/*"))
        command: list[str | Path] = ["rm", "-rf", "--one-file-system", "--", place]
        run(command if owned else as_root(command))


@contextmanager
def scratch(images_directory: Path) -> Iterator[Path]:
    """An empty directory on the same file system, gone afterwards whatever happened (after a SIGKILL: swept by the next builder).

    Its name is new each time: what a killed builder started through sudo does not hold the lock, and may still write where it was told to.
    """
    place = images_directory / SCRATCH / secrets.token_hex(8)
    place.mkdir(parents=True)
    try:
        yield place
    except BaseException:
        with suppress(ImageError):  # what went wrong before matters more, and the next builder sweeps as well
            sweep(images_directory)
        raise
    sweep(images_directory)


def publish_directory(result: Path, target: Path) -> None:
    """Make a finished directory of files read-only and durable, then let it appear under its name, all at once."""
    for path in result.iterdir():
        path.chmod(0o444)
        flush(path)
    result.chmod(0o755)
    flush(result)
    result.rename(target)
    flush(target.parent)


def publish_text(path: Path, text: str) -> None:
    """Write a small file so that it is there with all of its text or not at all, and survives a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    flush(part)
    part.rename(path)
    flush(path.parent)


def flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
