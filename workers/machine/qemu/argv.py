"""The QEMU command line, as data. What it says about devices is the pin's device layout: see `device_layout`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.machine.driver import GuestImage, MachineSpec
from workers.machine.network.addresses import GUEST_MAC, MTU
from workers.machine.qemu.binary import QemuBinary
from workers.machine.qemu.platform import Platform, platform_of
from workers.machine.runtime import PID_NAME

OPERATIONS_SOCKET = "operations.sock"
INSPECTION_SOCKET = "inspection.sock"  # QMP serves one client per socket: looking must not wait for doing
GUEST_SOCKET = "guest.sock"
GUEST_CHARDEV = "guest"
CONSOLE_ID = "console"
CONSOLE_BYTES = 64 * 1024
TERMINAL_PIPE = "terminal"  # NAME.in and NAME.out
TERMINAL_CHARDEV = "terminal"
DISK_DEVICE = "disk0"
SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

# Of every machine; platform.py adds what an architecture has beside them. A device with a ROM belongs into the firmware digest as well.
# No balloon and no free page reporting: MADV_DONTNEED on a private file mapping brings the image's old bytes back.
DEVICES: tuple[Mapping[str, object], ...] = (
    {"driver": "virtio-rng-pci", "rng": "rng0", "id": "vrng0"},
    # A guest's console prints 16 bytes at a time and its processor spins until QEMU took them. Without a thread between the two an
    # emulated machine prints at a quarter of the cost.
    {"driver": "virtio-serial-pci", "id": "vserial0", "ioeventfd": False},
    {"driver": "virtserialport", "bus": "vserial0.0", "chardev": GUEST_CHARDEV, "name": "org.qemu.guest_agent.0", "id": "guest0"},
    # The terminal is a console and not a plain port: QEMU drops what has no room, where a plain port would make the guest wait.
    {"driver": "virtconsole", "bus": "vserial0.0", "chardev": TERMINAL_CHARDEV, "name": "org.keepstate.terminal", "id": "terminal0"},
)
# An error of the host's disk is the guest's I/O error; QEMU's default would stop the machine without a word.
DISK: Mapping[str, object] = {"driver": "virtio-blk-pci", "id": DISK_DEVICE, "werror": "report", "rerror": "report"}
NETDEV = "net0"
# At a place of its own on the bus, so that all other devices are where they are in a machine without it. No ROM: nothing boots from it. The
# guest need not be told to announce itself after a resume: there is one neighbour, and it knows.
NETWORK: Mapping[str, object] = {
    "driver": "virtio-net-pci",
    "id": "nic0",
    "netdev": NETDEV,
    "mac": GUEST_MAC,
    "host_mtu": MTU,
    "addr": "0x10",
    "romfile": "",
    "guest_announce": False,
}
UNPLUGGED = f"hubport,id={NETDEV},hubid=0"  # the guest's side is the same, and what it sends is dropped


def plugged_into(tap_fd: int) -> str:
    """The end of a network device that is the open tap; QEMU has inherited it."""
    return f"tap,id={NETDEV},fd={tap_fd},vhost=off"


@dataclass(frozen=True)
class Accelerator:
    name: str  # "kvm" or "tcg"

    @property
    def option(self) -> str:
        return "kvm" if self.name == "kvm" else "tcg,thread=multi"


@dataclass(frozen=True)
class DiskChain:
    """What the disk is made of at the start: node definitions, bottom first, and the node that the guest writes to."""

    nodes: tuple[Mapping[str, object], ...]
    top: str


def command_line(
    qemu: QemuBinary,
    accelerator: Accelerator,
    spec: MachineSpec,
    image: GuestImage,
    memory: Path,
    disk: DiskChain | None,
    *,
    incoming: bool,
    netdev: str = UNPLUGGED,
) -> list[str]:
    """Equal at boot and at resume but for the paths, `-incoming`, and what the network is plugged into.

    The process starts stopped and runs in the runtime directory.
    """
    platform = platform_of(image.architecture)
    argv = [str(qemu.path), "-nodefaults", "-no-user-config", "-display", "none", "-S", "-sandbox", SANDBOX]
    machine = platform.machine(qemu.machine_type)
    argv += ["-machine", f"{machine},memory-backend=memory,dump-guest-core=off", "-accel", accelerator.option]
    argv += ["-cpu", platform.cpu(accelerator.name), "-smp", str(spec.cpus), "-m", f"{spec.memory_bytes // (1 << 20)}M"]
    argv += ["-object", json.dumps(memory_backend(qemu, memory, spec.memory_bytes))]
    # absolute, for the process has another working directory than we have
    argv += ["-kernel", str(image.kernel.absolute()), "-initrd", str(image.initrd.absolute()), "-append", image.command_line]
    # A guest that ends (shut down, reset, panicked) leaves a stopped process that can still say why and show its console.
    argv += ["-no-reboot", "-no-shutdown", "-pidfile", PID_NAME]
    argv += [*_channels(), *_devices(platform, disk)]
    if spec.network:
        argv += ["-netdev", netdev, "-device", json.dumps(NETWORK)]
    if incoming:  # the device file is written without a configuration section, so none may be expected
        argv += ["-incoming", "defer", "-global", "migration.send-configuration=off"]
    return argv


def memory_backend(qemu: QemuBinary, memory: Path, memory_bytes: int) -> dict[str, object]:
    """share=off: the guest's writes stay private to the process and the image is never changed.

    Where QEMU can map a read-only file writable (`rom`), it opens the image read-only. Older ones open it read-write, so
    an image is verified again before each use.
    """
    backend: dict[str, object] = {"qom-type": "memory-backend-file", "id": "memory", "size": memory_bytes, "mem-path": str(memory)}
    backend |= {"share": False, "dump": False}
    if qemu.private_readonly_memory:
        backend |= {"readonly": True, "rom": "off"}
    return backend


def device_layout(architecture: str, with_disk: bool, with_network: bool) -> str:
    """The guest-visible devices as one line: equal lines, equal layouts."""
    platform = platform_of(architecture)
    devices = [*platform.devices, *DEVICES, *([DISK] if with_disk else []), *([NETWORK] if with_network else [])]
    shown = (json.dumps(device, sort_keys=True, separators=(",", ":")) for device in devices)
    return ";".join([*shown, *platform.globals, platform.serial])


def _channels() -> list[str]:
    """The console goes to a ring in QEMU's memory: a guest can print for ever and neither fills a disk nor waits for a reader."""
    argv = ["-chardev", f"ringbuf,id={CONSOLE_ID},size={CONSOLE_BYTES}", "-serial", f"chardev:{CONSOLE_ID}"]
    argv += ["-chardev", f"socket,id={GUEST_CHARDEV},path={GUEST_SOCKET},server=on,wait=off"]
    argv += ["-chardev", f"pipe,id={TERMINAL_CHARDEV},path={TERMINAL_PIPE}"]
    for name, path in (("operations", OPERATIONS_SOCKET), ("inspection", INSPECTION_SOCKET)):
        argv += ["-chardev", f"socket,id={name},path={path},server=on,wait=off", "-mon", f"chardev={name},mode=control"]
    return argv


def _devices(platform: Platform, disk: DiskChain | None) -> list[str]:
    argv = ["-object", "rng-random,id=rng0,filename=/dev/urandom"]
    for setting in platform.globals:
        argv += ["-global", setting]
    for device in (*platform.devices, *DEVICES):
        argv += ["-device", json.dumps(device)]
    if disk is not None:
        argv += [*_json_options("-blockdev", disk.nodes), "-device", json.dumps({**DISK, "drive": disk.top})]
    return argv


def _json_options(option: str, values: Sequence[Mapping[str, object]]) -> list[str]:
    return [part for value in values for part in (option, json.dumps(value))]
