"""The launcher on a machine whose distribution is a fake: package programs that only write down how they were called."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
TOOLS = (
    "sh",
    "dirname",
    "cat",
    "sed",
    "grep",
    "awk",
    "cut",
    "tee",
    "mkdir",
    "id",
    "env",
    "tail",
    "find",
    "flock",
    "printf",
    "rm",
    "sha256sum",
    "readlink",
    "true",
)
FAKE_PYTHON = """
case "$*" in
    *python_implementation*) echo "CPython 3.11.0" ;;
    *"-m venv"*) for last; do :; done; mkdir -p "$last/bin"; cp_to="$last/bin/python"; cat "$0" >"$cp_to"; chmod 755 "$cp_to" ;;
    *keepstate_site.bytecode*) echo "bytecode is ${PYTHONDONTWRITEBYTECODE-written}"; exit ${FAIL_COMPILE:-0} ;;
    *"-m pip"*) echo "Collecting a thing"; exit ${FAIL_PIP:-0} ;;
esac
"""


@dataclass(frozen=True)
class FakeMachine:
    root: Path

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def calls(self) -> list[str]:
        log = self.root / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def program(self, name: str, body: str) -> None:
        """A program on PATH that writes down its arguments and then runs `body`."""
        file = self.bin / name
        file.write_text(f'#!/bin/sh\nprintf "%s\\n" "{name} $*" >>"{self.root}/calls"\n{body}\n')
        file.chmod(0o755)

    def install(self, *packages: str) -> None:
        """What dpkg-query knows as installed."""
        (self.root / "installed").write_text("".join(f"{name}:installed\n" for name in packages))

    def run(self, *argv: str, **env: str) -> "subprocess.CompletedProcess[str]":
        environment = {
            "PATH": str(self.bin),
            "KEEPSTATE_VAR": str(self.root / "var"),
            "KEEPSTATE_OS_RELEASE": str(self.root / "os-release"),
            **env,
        }
        return subprocess.run(
            argv, env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False
        )

    def packages(self, script: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run a line of shell with the launcher's package functions."""
        head = f'set -eu; PROJECT={PROJECT}; STATE={self.root}/var; LOGS=$STATE/log; mkdir -p "$LOGS"; '
        sources = "".join(f". {PROJECT}/keepstate_site/setup/{name}.sh; " for name in ("say", "packages", "python"))
        return self.run("/bin/sh", "-c", head + sources + script, **env)


def make(root: Path, *, distribution: str = "debian", version: str = "12") -> FakeMachine:
    machine = FakeMachine(root)
    machine.bin.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool, path="/usr/bin:/bin")
        assert found, tool
        os.symlink(found, machine.bin / tool)
    (root / "os-release").write_text(f"ID={distribution}\nVERSION_ID={version}\n")
    machine.program("dpkg-query", f'cat "{root}/installed" 2>/dev/null; exit 1')
    machine.program("apt-cache", 'shift; for name; do echo "$name:"; echo "  Candidate: 1.0"; done')
    machine.program("apt-get", 'echo "Setting up something"')
    return machine


def with_python(root: Path) -> FakeMachine:
    """With a Python that makes environments of itself."""
    machine = make(root)
    (machine.bin / "chmod").symlink_to("/usr/bin/chmod")
    machine.program("python3", FAKE_PYTHON)
    return machine
