"""What one machine's QEMU may see: its runtime directory, the files it is started from, its own program, and nothing else of the host.

programs   the emulator, its libraries, its firmware; the shell that sets the limits
files      kernel, initial ramdisk, the image's disk and the saved one: read only
memory     read only where QEMU can map such a file for a machine to write to (`private_readonly_memory`). An older one opens it for
           writing, although it never writes: there the file is writable to this process, and is verified again before each use
runtime    root's directory; the files in it that are the machine's own were made for it
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workers.machine.process import isolation, uids
from workers.machine.process.mounts import View
from workers.machine.process.spawn import SHELL, Confined
from workers.machine.qemu.binary import QemuBinary

#: Where programs of this host find their libraries; what is not there is left out.
LIBRARIES = (
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/nix/store",
    "/gnu/store",
)
DEVICES = ("/dev/null", "/dev/urandom")
KVM_DEVICE = Path("/dev/kvm")
READ_BY_ALL, WRITTEN_BY_ALL = 0o444, 0o666


@dataclass(frozen=True)
class Needs:
    """What a machine is started from. `memory` of a boot lies in the runtime directory, that of a resume does not."""

    qemu: QemuBinary
    files: tuple[Path, ...]
    memory: Path
    kvm: bool


def confined(runtime: Path, needs: Needs, uid: int, mount_point: Path) -> Confined:
    """Opens the files to the machine's user, whom nothing but its view lets near them. Raises OSError."""
    _allow(needs.files, READ_BY_ALL)
    shared = needs.memory.parent != runtime
    if shared:
        _allow([needs.memory], READ_BY_ALL if needs.qemu.private_readonly_memory else WRITTEN_BY_ALL)
    readonly_memory = (needs.memory,) if shared and needs.qemu.private_readonly_memory else ()
    writable_memory = (needs.memory,) if shared and not needs.qemu.private_readonly_memory else ()
    view = View(
        programs=_programs(needs.qemu),
        files=(*needs.files, *readonly_memory),
        writable=(runtime, *writable_memory),
        devices=(*map(Path, DEVICES), *((KVM_DEVICE,) if needs.kvm else ())),
    )
    return Confined(uid, (KVM_DEVICE.stat().st_gid,) if needs.kvm else (), view, mount_point)


def _programs(qemu: QemuBinary) -> tuple[Path, ...]:
    wanted = [*map(Path, LIBRARIES), *qemu.data_directories, qemu.path, SHELL.resolve()]
    return tuple(dict.fromkeys(path for path in wanted if path.exists()))


def _allow(paths: Iterable[Path], mode: int) -> None:
    for path in paths:
        had = path.stat().st_mode & 0o777
        if had & mode != mode:
            path.chmod(had | mode)


def take(runtime: Path, isolation_: isolation.Isolation) -> uids.TakenId | None:
    """A user for the machine of this directory, who may reach what lies in it and change no name; None where machines are not isolated.

    Raises RuntimeError (isolation is required and not possible), NoneFree, OSError.
    """
    if not isolation_.wanted():
        return None
    taken = isolation_.take_id()
    try:
        os.chown(runtime, 0, taken.uid)
        runtime.chmod(0o710)
    except BaseException:
        taken.close()
        raise
    return taken
