"""What boot and resume have in common: a process that starts in a claimed runtime directory, or leaves nothing behind."""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from workers.machine.driver import GuestImage, MachineError, MachineSpec
from workers.machine.network import namespace
from workers.machine.process import cgroup, identity, spawn
from workers.machine.process.isolation import Isolation
from workers.machine.process.kill import kill
from workers.machine.process.uids import NoneFree, TakenId, give
from workers.machine.qemu.argv import INSPECTION_SOCKET, UNPLUGGED, Accelerator, plugged_into
from workers.machine.qemu.binary import QemuBinary
from workers.machine.qemu.confine import Needs, confined, take
from workers.machine.qemu.console import console_tail, plain
from workers.machine.qemu.monitor import Monitor, MonitorError, MonitorSilent
from workers.machine.qemu.sockets import passed
from workers.machine.runtime import PID_NAME, claim, discard, write_record

DRIVER_NAME = "qemu"
STDERR_BYTES = 64 * 1024
LAST_WORDS_SECONDS = 2.0
FILE_MARGIN_BYTES = 256 * 1024 * 1024  # beyond the disk's size: an overlay's tables, the device state


class Start:
    """A start under way: the claimed directory, its lock and its tap until the process has them, the end of the process's error stream."""

    def __init__(self, runtime: Path, lock_fd: int, isolation: Isolation):
        self.runtime, self._isolation = runtime, isolation
        self._lock_fd: int | None = lock_fd
        self._user: TakenId | None = None
        self._namespace: Path | None = None
        self._tap: int | None = None
        self._process: identity.ProcessIdentity | None = None
        self._stderr, self._stderr_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def take_user(self) -> None:
        """Before anything is made in the directory: whose it will be. Raises RuntimeError, NoneFree, OSError."""
        self._user = take(self.runtime, self._isolation)

    def connect(self, networks: Path | None) -> str:
        """The other end of the network device: a namespace of its own below `networks`, or nothing without them. Raises OSError."""
        if networks is None:
            return UNPLUGGED
        self._namespace = networks / self.runtime.name
        self._tap = namespace.make(self._namespace)
        return plugged_into(self._tap)

    def launch(self, argv: Sequence[str], record: Mapping[str, object], needs: Needs) -> None:
        """Record what is about to live here, start it, then record which process it is. Raises OSError.

        The process's errors are read only if the start fails. Afterwards nobody listens and QEMU, which ignores SIGPIPE, loses what it
        says: a file could be filled by a guest that provokes warnings.
        """
        write_record(self.runtime, {**record, "driver": DRIVER_NAME})
        (self.runtime / PID_NAME).touch(mode=0o600)
        give(self.runtime / PID_NAME)
        with passed(argv, self.runtime) as (words, sockets):
            inherited = sockets if self._tap is None else (*sockets, self._tap)
            pid = self._spawn(words, record, needs, inherited)
        self._close_ours()
        self._process = identity.identify(pid)
        if self._isolation.cgroup is not None:
            memory_bytes = int(str(record["memory_bytes"]))
            cgroup.enclose(self._isolation.cgroup, self.runtime.name, pid, memory_bytes, emulated=not needs.kvm)
        write_record(self.runtime, {**record, "driver": DRIVER_NAME, "process": self._process and self._process.as_record()})

    def _spawn(self, argv: Sequence[str], record: Mapping[str, object], needs: Needs, inherited: tuple[int, ...]) -> int:
        assert self._lock_fd is not None
        disk_bytes = int(str(record["disk_bytes"] or 0))
        terms = spawn.Terms(disk_bytes + FILE_MARGIN_BYTES, inherited)
        if self._user is not None:
            user = confined(self.runtime, needs, self._user.uid, self._isolation.mount_point)
            terms = spawn.Terms(terms.file_bytes, (*inherited, self._user.lock_fd), user)
        return spawn.spawn(argv, self.runtime, self._lock_fd, self._stderr_writer, terms)

    def last_words(self) -> str:
        """What QEMU and the guest's console said, for the message of a start that failed."""
        try:
            said = plain(os.read(self._stderr, STDERR_BYTES))
        except BlockingIOError:
            said = ""
        try:
            with Monitor(self.runtime, INSPECTION_SOCKET, LAST_WORDS_SECONDS) as monitor:
                console = console_tail(monitor, self.runtime)
        except (MonitorError, MonitorSilent, OSError):
            console = ""
        return (f" QEMU said: {said}" if said else "") + (f" The console ends: {console}" if console else "")

    def abandon(self) -> None:
        """No process and no file is left."""
        self._close_ours()
        kill(self.runtime, self._process)
        if self._namespace is not None:
            namespace.remove(self._namespace)
        discard(self.runtime)

    def close(self) -> None:
        self._close_ours()
        os.close(self._stderr)
        os.close(self._stderr_writer)

    def _close_ours(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None
        if self._user is not None:
            self._user.close()
            self._user = None
        if self._tap is not None:
            os.close(self._tap)
            self._tap = None


@contextmanager
def starting(runtime: Path, failure_code: str, isolation: Isolation) -> Iterator[Start]:
    """The start of a machine. Whatever is raised inside, the process is killed and the directory removed before it goes on.

    A failure becomes MachineError with `failure_code` (or `no_space`, `bad_image`, `hypervisor_missing`) and the last words of QEMU and
    the guest.
    """
    start = Start(runtime, claim(runtime, failure_code), isolation)
    try:
        start.take_user()
        yield start
    except (MonitorError, MonitorSilent, MachineError, OSError, NoneFree, RuntimeError) as error:
        words = start.last_words()
        start.abandon()
        raise MachineError(_code_of(error, failure_code), f"{error} No process and no file of the machine is left.{words}") from error
    except BaseException:
        start.abandon()
        raise
    finally:
        start.close()


def _code_of(error: Exception, failure_code: str) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no_space"
    if isinstance(error, MachineError) and error.code in ("no_space", "bad_image", "hypervisor_missing"):
        return error.code
    return failure_code


def check_parts(spec: MachineSpec, image: GuestImage, failure_code: str) -> None:
    """Raises `bad_image` for files that are not there or not as long as they say, `failure_code` for an impossible size."""
    for path in (image.kernel, image.initrd, image.disk):
        if path is not None and not path.is_file():
            raise MachineError("bad_image", f"The image {image.name} lacks its file {path}. Nothing was started; install the image again.")
    if image.disk is not None and (image.disk.stat().st_size != image.disk_bytes or image.disk_bytes % 4096):
        raise MachineError(
            "bad_image", f"The disk of image {image.name} is not {image.disk_bytes} bytes in 4 KiB units. Nothing was started."
        )
    if spec.memory_bytes <= 0 or spec.memory_bytes % (1 << 20) or spec.cpus < 1:
        raise MachineError(failure_code, "A machine has a whole number of MiB of memory and at least one processor. Nothing was started.")


def record_of(spec: MachineSpec, image: GuestImage, memory: Path, disk: Path | None = None) -> dict[str, object]:
    """The part of machine.json that is known before the process starts."""
    return {
        "session_id": spec.session_id,
        "architecture": image.architecture,
        "memory_bytes": spec.memory_bytes,
        "cpus": spec.cpus,
        "image_digest": image.digest,
        "disk_bytes": image.disk_bytes if image.disk else None,
        "memory": str(memory),
        "disk": str(disk) if disk else None,  # the assembled disk under the overlays, after a resume
        "memory_inode": os.stat(memory).st_ino,  # the mapped file is recognised by it, whatever lies at the path later
    }


def needs_of(qemu: QemuBinary, accelerator: Accelerator, image: GuestImage, memory: Path, saved_disk: Path | None) -> Needs:
    """The files by the names that the command line has for them."""
    files = [image.kernel.absolute(), image.initrd.absolute()]
    files += [path for path in (image.disk and image.disk.absolute(), saved_disk) if path is not None]
    return Needs(qemu, tuple(files), memory, kvm=accelerator.name == "kvm")
