"""The initramfs of an image: for `tiny` the whole guest, else what loads the modules and mounts the root disk."""

from pathlib import Path

from workers.guest import cpio, elf
from workers.guest.layout import BUSYBOX, LOGIN, SHELL, guest_paths

BOOT_APPLETS = ("mount", "insmod", "ip", "mkdir", "ln", "sleep", "switch_root")
TINY_APPLETS = """
    [ awk basename cat chgrp chmod chown clear cmp cp cut date dd df dirname dmesg du echo env expr false find free grep gunzip gzip head
    hexdump hostname id ifconfig kill killall ls lsmod md5sum mkfifo mknod mktemp mv nc nohup nproc od pgrep
    ping pkill printf ps pwd readlink realpath rm rmdir route sed seq setsid sh sha256sum sort stat stty sync sysctl
    tail tar tee test time timeout top touch tr true tty umount uname uniq uptime usleep vi wc wget which xargs yes
"""
MOUNT_POINTS = ("proc", "sys", "dev", "run", "tmp", "mnt", "root")


def base(busybox: bytes, modules: list[tuple[str, bytes]], files: dict[str, bytes]) -> list[cpio.Entry]:
    """busybox, the modules in the order in which they load, and the boot script."""
    entries = [cpio.directory(name) for name in MOUNT_POINTS]
    entries += [cpio.Entry("dev/console", 0o020600, device=(5, 1))]
    entries += [cpio.file("bin/busybox", busybox, 0o755), cpio.file("init", files["boot"], 0o755)]
    entries += [cpio.symlink(f"bin/{name}", "busybox") for name in BOOT_APPLETS]
    entries += [cpio.file(f"modules/{name}", content) for name, content in modules]
    entries += [cpio.file("modules/order", "".join(f"{name}\n" for name, _ in modules).encode())]
    return entries


def whole_guest(files: dict[str, bytes], tree: Path) -> list[cpio.Entry]:
    """What `tiny` has beyond the base: applets by name, qemu-ga with its libraries, our scripts."""
    agent = tree / "usr/sbin/qemu-ga"
    entries = [cpio.symlink(f"bin/{name}", "busybox") for name in TINY_APPLETS.split()]
    entries += [cpio.file("usr/bin/qemu-ga", agent.read_bytes(), 0o755)]
    entries += [cpio.file(path, content, 0o755) for path, content in elf.libraries_of(agent, tree).items()]
    entries += [cpio.file(path, content, 0o755) for path, content in guest_paths(files).items()]
    entries += [cpio.symlink("sbin", "usr/sbin"), cpio.symlink(BUSYBOX, "/bin/busybox"), cpio.symlink(SHELL, "busybox")]
    entries += [cpio.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n"), cpio.file("etc/group", b"root:x:0:\ntty:x:5:\n")]
    entries += [cpio.file("etc/profile", LOGIN), cpio.file("etc/hosts", b"127.0.0.1 localhost keepstate\n")]
    return entries
