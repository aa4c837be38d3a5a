"""The QEMU binary: where it is and what it can do, asked of the binary itself and never derived from its version number."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from workers.machine.digests import FileVersion, file_sha256, file_version
from workers.machine.driver import MachineError
from workers.machine.qemu.platform import PLATFORMS, platform_of

PACKAGES = {"qemu-img": "qemu-utils", **{platform.program: platform.package for platform in PLATFORMS.values()}}
PROBE_SECONDS = 20.0


@dataclass(frozen=True)
class QemuBinary:
    path: Path
    sha256: str
    machine_type: str  # the newest versioned one of its platform
    private_readonly_memory: bool  # memory-backend-file has `rom`: the image is opened read-only and still mapped writable
    data_directories: tuple[Path, ...]


def find_program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise MachineError("hypervisor_missing", f"{name} is not installed. Install the package {PACKAGES[name]} (Debian, Ubuntu).")
    return Path(found).resolve()


def find_qemu(architecture: str) -> QemuBinary:
    """Raises `hypervisor_missing` for an architecture without a driver or a binary that is absent or does not answer."""
    platform = platform_of(architecture)
    path = find_program(platform.program)
    return _probe(path, file_version(path), platform.architecture)


@lru_cache(maxsize=8)
def _probe(path: Path, _version: FileVersion, architecture: str) -> QemuBinary:
    platform = platform_of(architecture)
    machine_type = platform.newest_machine_type(_ask(path, "-machine", "help"))
    if machine_type is None:
        raise MachineError("hypervisor_missing", f"{path} offers no versioned machine type of the family {platform.machine_family}.")
    return QemuBinary(
        path=path,
        sha256=file_sha256(path),
        machine_type=machine_type,
        private_readonly_memory="rom=<" in _ask(path, "-object", "memory-backend-file,help"),
        data_directories=tuple(Path(line).resolve() for line in _ask(path, "-L", "help").splitlines() if line),
    )


def _ask(path: Path, *arguments: str) -> str:
    return run_bounded([str(path), *arguments], "hypervisor_missing", PROBE_SECONDS)


def run_bounded(argv: Sequence[str], failure_code: str, timeout_seconds: float) -> str:
    """Run a QEMU tool to its end and return what it printed; `failure_code` (or `no_space`) with the tool's own words if it failed."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_seconds, text=True, errors="replace", check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(failure_code, f"{Path(argv[0]).name} could not be run: {error}.") from error
    if done.returncode != 0:
        code = "no_space" if "No space left on device" in done.stderr else failure_code
        raise MachineError(code, f"{Path(argv[0]).name} failed ({done.returncode}): {done.stderr.strip()[-500:]}")
    return done.stdout
