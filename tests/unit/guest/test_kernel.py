"""Modules come with what they need, in an order in which they load, however the distribution packs them."""

import gzip
import lzma
import struct
from pathlib import Path

import pytest
import zstandard

from workers.guest.bzimage import bootable
from workers.guest.errors import ImageError
from workers.guest.kernel import Kernel, find_kernel, modules_in_order

RELEASE = "6.1.0-test"


def module(depends: str) -> bytes:
    return b"\x7fELF...\0license=GPL\0depends=" + depends.encode() + b"\0name=x\0"


@pytest.fixture(params=["lib/modules", "usr/lib/modules"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Kernel:
    place = tmp_path / request.param / RELEASE
    (place / "kernel/drivers").mkdir(parents=True)
    (place / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\nkernel/drivers/char/hw_random/rng-core.ko\n")
    (place / "kernel/drivers/virtio_ring.ko").write_bytes(module(""))
    (place / "kernel/drivers/virtio.ko.xz").write_bytes(lzma.compress(module("virtio_ring")))
    (place / "kernel/drivers/virtio-rng.ko.zst").write_bytes(zstandard.compress(module("virtio,rng-core")))
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / f"vmlinuz-{RELEASE}").write_bytes(b"kernel")
    return find_kernel(tmp_path)


def test_the_kernel_is_found_before_and_after_the_merge_of_usr(kernel: Kernel):
    assert (kernel.release, kernel.image.read_bytes()) == (RELEASE, b"kernel")


def test_dependencies_come_first_uncompressed_and_without_what_is_built_in(kernel: Kernel):
    assert modules_in_order(kernel, ("ext4", "virtio-rng", "virtio")) == [
        ("virtio_ring.ko", module("")),
        ("virtio.ko", module("virtio_ring")),
        ("virtio_rng.ko", module("virtio,rng-core")),
    ]


def test_a_module_that_is_nowhere_is_an_error_that_names_it(kernel: Kernel):
    with pytest.raises(ImageError, match="no module virtio_blk"):
        modules_in_order(kernel, ("virtio_blk",))


def test_a_module_that_may_be_missing_may_be_missing(kernel: Kernel):
    assert modules_in_order(kernel, ("crc32c_generic?", "virtio_ring?")) == [("virtio_ring.ko", module(""))]


def test_a_tree_without_a_kernel_is_an_error(tmp_path: Path):
    with pytest.raises(ImageError, match="0 kernels"):
        find_kernel(tmp_path)


def elf(note_type: int) -> bytes:
    """A program of one segment, which holds one note of Xen's."""
    note = struct.pack("<III", 4, 8, note_type) + b"Xen\0" + bytes(8)
    header = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<Q", 64) + bytes(14) + struct.pack("<HH", 56, 1) + bytes(6)
    return header + struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, len(note), len(note), 4) + note


def bzimage(payload: bytes) -> bytes:
    sectors = 1
    setup = bytearray((sectors + 1) * 512)
    setup[0x1F1] = sectors
    setup[0x202:0x208] = b"HdrS" + struct.pack("<H", 0x20F)
    setup[0x248:0x250] = struct.pack("<II", 16, len(payload))
    return bytes(setup) + bytes(16) + payload + b"trailer"


@pytest.mark.parametrize("compress", [lzma.compress, gzip.compress, zstandard.compress])
def test_a_kernel_that_qemu_can_start_directly_is_taken_out_of_its_wrapping(compress):
    assert bootable(bzimage(compress(elf(18)) + struct.pack("<I", 1000))) == elf(18)


def test_an_arm64_kernel_that_the_distribution_compressed_is_taken_out_of_it():
    assert bootable(gzip.compress(b"an arm64 kernel")) == b"an arm64 kernel"


@pytest.mark.parametrize(
    "image", [b"an arm64 kernel", bzimage(b"\x02\x21\x4c\x18 lz4"), bzimage(lzma.compress(elf(17))), bzimage(lzma.compress(b"no ELF"))]
)
def test_any_other_kernel_stays_as_it_is(image: bytes):
    assert bootable(image) == image
