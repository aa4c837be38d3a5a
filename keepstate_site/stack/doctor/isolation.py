"""Whether machines get a user, a root and limits of their own here, or run as the worker does."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from keepstate_site.stack.doctor.finding import Finding, failed, ok, unknown, warn

HOW = "see docs/operations/isolation.md"
#: chown, dac_override, setgid, setuid, sys_ptrace, sys_admin: what a worker needs of root to give a machine a user and a root of its own.
CAPABILITIES = (0, 1, 6, 7, 19, 21)
DEFAULT_UIDS = "1900000000-1900065535"


def isolation() -> Iterator[Finding]:
    mode = os.environ.get("KEEPSTATE_ISOLATION") or "auto"
    obstacle = "KEEPSTATE_ISOLATION is off" if mode == "off" else _obstacle()
    if obstacle is None:
        yield ok("isolation", f"each machine has a user of its own (of {_uids()}), and sees its own files only")
    else:
        text = f"{obstacle}: machines run as the worker's own user, behind QEMU's own sandbox alone"
        yield failed("isolation", text, HOW) if mode == "required" else warn("isolation", text, HOW)
    yield from memory_image()
    yield from cgroup()


def _obstacle() -> str | None:
    if os.geteuid() != 0:
        return "this user is not root"
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    held = int(status["CapEff"], 16)
    if not all(held >> number & 1 for number in CAPABILITIES):
        return "root lacks capabilities here (a container?)"
    found = re.fullmatch(r"(\d+)-(\d+)", _uids())
    if not found:
        return f"KEEPSTATE_MACHINE_UIDS={_uids()} is not FIRST-LAST"
    return None if _mapped(int(found[1]), int(found[2])) else f"the user ids {_uids()} do not exist in this user namespace"


def _uids() -> str:
    return os.environ.get("KEEPSTATE_MACHINE_UIDS") or DEFAULT_UIDS


def _mapped(first: int, last: int) -> bool:
    spans = [list(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return any(inside <= first and last < inside + length for inside, _, length in spans)


def memory_image() -> Iterator[Finding]:
    """From 8.2 on QEMU maps a file that it has opened for reading only, and still lets the machine write to its memory."""
    program = shutil.which("qemu-system-x86_64") or shutil.which("qemu-system-aarch64")
    if program is None:
        yield unknown("memory image", "QEMU is not installed")
        return
    said = subprocess.run([program, "-object", "memory-backend-file,help"], capture_output=True, text=True, timeout=20, check=False).stdout
    if "rom=<" in said:
        yield ok("memory image", "a machine's process can only read the image that it is resumed from")
    else:
        text = "this QEMU (before 8.2) opens a machine's memory image for writing; the image is verified again before each use"
        yield warn("memory image", text, "use QEMU 8.2 or later where machines of several trust levels run")


def cgroup() -> Iterator[Finding]:
    base = os.environ.get("KEEPSTATE_CGROUP")
    if not base:
        yield warn("cgroup", "KEEPSTATE_CGROUP is not set: the kernel does not bound what a machine's process takes of memory", HOW)
        return
    try:
        controllers = (Path(base) / "cgroup.controllers").read_text().split()
    except OSError as error:
        yield failed("cgroup", f"{base} is not a cgroup v2 directory ({error.strerror})", HOW)
        return
    missing = {"memory", "pids"} - set(controllers)
    if missing:
        yield failed("cgroup", f"{base} has no controller {', '.join(sorted(missing))}", HOW)
    elif not os.access(base, os.W_OK):
        yield failed("cgroup", f"{base} cannot be written by this user", HOW)
    else:
        yield ok("cgroup", f"each machine gets a group below {base}")
