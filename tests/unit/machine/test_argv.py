"""The command line says what the design asks for, whatever the paths are called."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from workers.machine.driver import GuestImage, MachineSpec
from workers.machine.qemu.argv import NETWORK, UNPLUGGED, Accelerator, DiskChain, command_line, device_layout, plugged_into
from workers.machine.qemu.binary import QemuBinary

QEMU = QemuBinary(Path("/usr/bin/qemu-system-x86_64"), "0" * 64, "pc-q35-7.2", False, ())
IMAGE = GuestImage("1" * 64, "tiny", "x86_64", Path("/i/kernel"), Path("/i/initrd"), None, 0, "console=ttyS0 quiet")
SPEC = MachineSpec("session", 256 << 20, 2)
DISK = DiskChain(({"node-name": "image", "driver": "raw"}, {"node-name": "overlay-0", "driver": "qcow2", "backing": "image"}), "overlay-0")


ARM_QEMU = QemuBinary(Path("/usr/bin/qemu-system-aarch64"), "0" * 64, "virt-7.2", False, ())
ARM_IMAGE = replace(IMAGE, name="tiny-arm64", architecture="aarch64")


def line(qemu=QEMU, memory="/m/memory.img", disk=None, accelerator="tcg", incoming=False, image=IMAGE):
    return command_line(qemu, Accelerator(accelerator), SPEC, image, Path(memory), disk, incoming=incoming)


def line_of(spec, netdev=UNPLUGGED):
    return command_line(QEMU, Accelerator("tcg"), spec, IMAGE, Path("/m/memory.img"), None, incoming=False, netdev=netdev)


def values(argv, option):
    return [argv[at + 1] for at, word in enumerate(argv) if word == option]


def memory_backend(argv):
    backends = [json.loads(value) for value in values(argv, "-object") if value.startswith("{")]
    return next(backend for backend in backends if backend["id"] == "memory")


def test_nothing_comes_from_defaults_or_configuration_files():
    assert {"-nodefaults", "-no-user-config", "-no-reboot"} <= set(line())


def test_the_sandbox_denies_everything_it_can():
    assert values(line(), "-sandbox") == ["on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"]


def test_the_memory_image_is_mapped_private_and_kept_out_of_core_files():
    backend = memory_backend(line())
    assert (backend["share"], backend["dump"], backend["size"]) == (False, False, 256 << 20)
    assert "dump-guest-core=off" in values(line(), "-machine")[0]
    assert "readonly" not in backend


def test_a_qemu_that_can_opens_the_memory_image_read_only():
    backend = memory_backend(line(replace(QEMU, private_readonly_memory=True)))
    assert (backend["readonly"], backend["rom"]) == (True, "off")


@pytest.mark.parametrize("name", ["/m/a,b=c.img", "/m/a b.img", '/m/"quoted".img', "/m/ü.img"])
def test_a_path_with_the_options_own_signs_stays_one_path(name):
    assert memory_backend(line(memory=name))["mem-path"] == name


def test_boot_and_resume_differ_in_the_incoming_options_alone():
    boot, resume = line(disk=DISK), line(disk=DISK, incoming=True)
    assert resume[: len(boot)] == boot
    assert resume[len(boot) :] == ["-incoming", "defer", "-global", "migration.send-configuration=off"]


def test_disk_errors_are_reported_to_the_guest_and_every_format_is_stated():
    argv = line(disk=DISK)
    disk = next(device for device in map(json.loads, values(argv, "-device")) if device["driver"] == "virtio-blk-pci")
    assert (disk["werror"], disk["rerror"], disk["drive"]) == ("report", "report", "overlay-0")
    assert all("driver" in json.loads(node) for node in values(argv, "-blockdev"))


def test_a_machine_without_a_disk_has_no_block_device():
    assert values(line(), "-blockdev") == []


def test_there_is_no_balloon_and_nothing_that_gives_memory_back():
    """MADV_DONTNEED on a private file mapping would bring the image's old bytes back into a running guest."""
    words = " ".join(line(disk=DISK)).lower()
    assert "virtio-serial" in words, "there is a command line to be judged"
    assert not [word for word in ("balloon", "free-page", "virtio-mem", "pc-dimm", "nvdimm") if word in words]


def test_the_device_layout_names_no_path_and_tells_a_disk_and_a_network_from_none():
    layouts = [device_layout("x86_64", disk, network) for disk in (True, False) for network in (True, False)]
    assert not [layout for layout in layouts if "/" in layout]
    assert len(set(layouts)) == 4


def test_a_machine_with_a_network_differs_from_one_without_in_one_device_more_and_nothing_before_it():
    without, plugged = line_of(replace(SPEC, network=False)), line_of(SPEC, plugged_into(7))
    assert plugged[: len(without)] == without
    assert [plugged[len(without)], plugged[len(without) + 1]] == ["-netdev", "tap,id=net0,fd=7,vhost=off"]
    assert json.loads(plugged[-1]) == NETWORK
    assert "addr" in NETWORK, "its place on the bus is named, so that no other device moves"


def test_what_the_network_is_plugged_into_changes_nothing_that_the_guest_sees():
    unplugged, plugged = line_of(SPEC), line_of(SPEC, plugged_into(7))
    assert values(unplugged, "-device") == values(plugged, "-device")
    assert values(unplugged, "-netdev") != values(plugged, "-netdev")


def test_there_is_a_monitor_for_doing_and_one_for_looking():
    assert len(values(line(), "-mon")) == 2


def test_the_accelerator_decides_the_processor():
    assert (values(line(accelerator="kvm"), "-accel"), values(line(accelerator="kvm"), "-cpu")) == (["kvm"], ["host"])
    assert (values(line(), "-accel"), values(line(), "-cpu")) == (["tcg,thread=multi"], ["max"])


def test_an_arm64_machine_names_its_interrupt_controller_and_spares_the_guest_costly_pointer_authentication():
    argv = line(ARM_QEMU, image=ARM_IMAGE)
    assert values(argv, "-machine")[0].startswith("virt-7.2,gic-version=3,")
    assert values(argv, "-cpu") == ["max,pauth-impdef=on"]
    assert values(line(ARM_QEMU, image=ARM_IMAGE, accelerator="kvm"), "-cpu") == ["host"]


def test_an_arm64_machine_has_the_same_devices_but_for_what_only_a_pc_has():
    def drivers(argv):
        return {json.loads(value)["driver"] for value in values(argv, "-device")}

    pc, arm = line(disk=DISK), line(ARM_QEMU, disk=DISK, image=ARM_IMAGE)
    assert drivers(pc) - drivers(arm) == {"vmgenid"}
    assert not any("ICH9" in value for value in values(arm, "-global"))
    assert device_layout("aarch64", True, True) != device_layout("x86_64", True, True)
