"""Running the distribution's programs: bounded in time, quiet unless they fail."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from workers.guest.errors import ImageError

LONGEST_SECONDS = 1800
GRACE_SECONDS = 20
TAIL_CHARACTERS = 2000
KEPT_BY_SUDO = "http_proxy,https_proxy,no_proxy,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,TMPDIR,SOURCE_DATE_EPOCH"


def run(argv: Sequence[str | Path], *, cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """Run a program and return its standard output.

    Raises ImageError with the program's name and the tail of what it said if it is missing, fails or takes too long.
    """
    words = [str(word) for word in argv]
    if shutil.which(words[0]) is None:
        raise ImageError(f"The program {words[0]} is not installed. Install the packages of workers/guest/packages.txt and try again.")
    process = subprocess.Popen(
        words,
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=False,  # the build lock is the one descriptor that is inherited: a child that outlives us still holds it
    )
    try:
        stdout, stderr = process.communicate(timeout=LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        raise ImageError(f"{words[0]} did not finish within {LONGEST_SECONDS} s and was ended. Nothing was published; try again.") from None
    finally:
        end(process)
    if process.returncode != 0:
        said = (stderr or stdout).decode(errors="replace")[-TAIL_CHARACTERS:]
        shown = words[words.index("--") + 1 :] if words[0] == "sudo" else words
        raise ImageError(f"{' '.join(shown[:3])} ... failed with code {process.returncode}; no image was made. It said:\n{said}")
    return stdout.decode(errors="replace")


def end(process: subprocess.Popen[bytes]) -> None:
    """TERM first: mmdebstrap and apt then end their own children and remove what they made."""
    if process.poll() is None:
        with suppress(PermissionError):  # sudo's process is root's; it ends with its own child
            process.terminate()
            try:
                process.communicate(timeout=GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def as_root(argv: Sequence[str | Path]) -> list[str | Path]:
    """The same command with root's rights: as it is for root, through sudo for anyone else."""
    return list(argv) if os.geteuid() == 0 else ["sudo", f"--preserve-env={KEPT_BY_SUDO}", "--", *argv]
