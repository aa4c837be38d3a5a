"""Images out of a real store: memory, disk and devices are what was saved, and what is bad never has a name."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from pytest_django.fixtures import Settings

from checkpoints_app.models import Checkpoint
from checkpoints_app.store import CheckpointWriter, IntegrityError, LocalBackend, Manifest, MissingObjectError, load_index
from tests.store_kit import ACCOUNT, FACTS, KEYS
from tests.unit.workers.disk_chain import UNITS, Chain, write, zero
from tests.unit.workers.sparse_files import PAGE, noise, sparse
from workers.guest.image import Description, write_description
from workers.restore.assemble import assemble_devices, assemble_disk, assemble_memory
from workers.save.disk import read_overlays, split_by_base
from workers.save.memory import image_pages

DIGEST = "d" * 64
MEMORY_PAGES = 4096


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    return LocalBackend(tmp_path / "store")


@pytest.fixture
def base(settings: Settings, tmp_path: Path) -> Path:
    """The disk of an image that this host has."""
    settings.KEEPSTATE_IMAGES = tmp_path / "images"
    directory = tmp_path / "images" / DIGEST
    directory.mkdir(parents=True)
    for name, content in (("kernel", b""), ("initrd", b""), ("disk.raw", noise(UNITS, 1))):
        (directory / name).write_bytes(content)
    write_description(
        directory,
        Description("test", DIGEST, "x86_64", "kernel", "initrd", "disk.raw", UNITS * PAGE, "", 128, "r" * 64, "none", {}),
    )
    return directory / "disk.raw"


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return sparse(tmp_path / "memory", MEMORY_PAGES, {0: noise(3, 2), 1500: noise(700, 3), 4095: noise(1, 4)})


@pytest.fixture
def chain(base: Path, tmp_path: Path) -> Chain:
    """The image's disk is copied aside, so that the overlays and the assembled file have bases of their own."""
    shutil.copyfile(base, tmp_path / "base.raw")
    return (
        Chain(tmp_path / "base.raw")
        .overlay(write(0, 40, 0x11), write(700, 3, 0x22), zero(100, 20))
        .overlay(write(5, 1, 0x33), zero(30, 2), write(110, 1, 0x44), write(UNITS - 1, 1, 0x55))
    )


CHECKPOINT = Checkpoint(account_id=ACCOUNT, image_digest=DIGEST)


def save(backend: LocalBackend, memory: Path, chain: Chain | None = None, devices: bytes = b"state") -> Manifest:
    with CheckpointWriter(backend, KEYS, ACCOUNT, None, load_index(backend, KEYS, ACCOUNT, None)) as writer:
        writer.add_image("memory", MEMORY_PAGES * PAGE, None, image_pages(memory))
        if chain is not None:
            written, zeros = read_overlays(chain.overlays)
            differing, equal = split_by_base(written, chain.base)
            writer.add_image("disk", UNITS * PAGE, f"image {DIGEST}", differing.batches(), base_units=equal, zero_units=zeros)
        units = -(-len(devices) // PAGE)
        writer.add_image("devices", len(devices), None, [(np.arange(units), devices)], whole=True)
        return writer.finish(FACTS).manifest


def test_memory_is_what_was_saved_and_as_sparse(backend: LocalBackend, memory: Path, tmp_path: Path) -> None:
    assemble_memory(tmp_path / "made", backend, KEYS, CHECKPOINT, save(backend, memory), None)
    made = tmp_path / "made"
    assert made.read_bytes() == memory.read_bytes()
    assert made.stat().st_blocks <= memory.stat().st_blocks + 64
    assert made.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("devices", [b"x", noise(3, 9), noise(3, 9)[:-7]])
def test_devices_are_what_was_saved_to_the_byte(backend: LocalBackend, memory: Path, tmp_path: Path, devices: bytes) -> None:
    assemble_devices(tmp_path / "made", backend, KEYS, CHECKPOINT, save(backend, memory, devices=devices), None)
    assert (tmp_path / "made").read_bytes() == devices


def test_a_disk_reads_as_the_guests_did(backend: LocalBackend, memory: Path, chain: Chain, tmp_path: Path) -> None:
    made = tmp_path / "made.qcow2"
    assemble_disk(made, backend, KEYS, CHECKPOINT, save(backend, memory, chain), None)
    compared = subprocess.run(
        ["qemu-img", "compare", "-f", "qcow2", "-F", "qcow2", made, chain.overlays[-1]], capture_output=True, check=False
    )
    assert (compared.returncode, b"identical" in compared.stdout) == (0, True)
    assert subprocess.run(["qemu-img", "check", "-q", "-f", "qcow2", made], check=False).returncode == 0


def test_an_assembled_disk_holds_only_what_differs_from_its_image(
    backend: LocalBackend, memory: Path, chain: Chain, tmp_path: Path
) -> None:
    made = tmp_path / "made.qcow2"
    assemble_disk(made, backend, KEYS, CHECKPOINT, save(backend, memory, chain), None)
    assert made.stat().st_size < 80 * PAGE


def test_a_disk_to_which_nothing_was_written_is_its_image(backend: LocalBackend, memory: Path, base: Path, tmp_path: Path) -> None:
    shutil.copyfile(base, tmp_path / "base.raw")
    made = tmp_path / "made.qcow2"
    assemble_disk(made, backend, KEYS, CHECKPOINT, save(backend, memory, Chain(tmp_path / "base.raw").overlay()), None)
    assert subprocess.run(["qemu-img", "compare", "-q", "-f", "qcow2", "-F", "raw", made, base], check=False).returncode == 0


@pytest.mark.parametrize("kind", ["memory", "disk"])
@pytest.mark.parametrize(("how", "error"), [("damaged", IntegrityError), ("missing", MissingObjectError)])
def test_bad_content_is_refused_and_leaves_no_scratch_file(
    backend: LocalBackend, memory: Path, chain: Chain, tmp_path: Path, kind: str, how: str, error: type[Exception]
) -> None:
    manifest = save(backend, memory, chain)
    for path in (backend.root / "objects").rglob("*"):
        if path.is_file() and path.name in manifest.packs:
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            data[len(data) // 3] ^= 1
            path.write_bytes(data) if how == "damaged" else path.unlink()
    made = tmp_path / "made"
    assembler = assemble_memory if kind == "memory" else assemble_disk
    with pytest.raises(error):
        assembler(made, backend, KEYS, CHECKPOINT, manifest, None)
    assert list(tmp_path.glob("made-*")) == []
