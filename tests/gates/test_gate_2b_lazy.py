"""Gate 2b for machines that run before their memory is there: no byte that was not verified reaches a guest."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkpoints_app.store import CheckpointWriter, LocalBackend, load_index
from tests.gates.room import IMAGES
from tests.machine_kit import assemble
from tests.store_kit import ACCOUNT, FACTS, KEYS
from tests.support.lazy_store import flip_frame, plan_of, with_names
from tests.support.waiting import until
from workers.guest.image import list_images
from workers.host.lazy import unmount
from workers.lazy import start, status
from workers.lazy.plan import Plan
from workers.machine.driver import PAGE_BYTES, GuestImage, MachineError, MachineSpec, SavedState
from workers.machine.memory.mapping import find_mapping
from workers.machine.process import alive
from workers.machine.process.kill import kill
from workers.machine.qemu.driver import QemuDriver
from workers.machine.runtime import read_record
from workers.save.memory import image_pages

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300), pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="needs /dev/fuse")]

SPEC = MachineSpec("gate", 128 << 20, 1)
ANSWER_SECONDS = 60.0


@pytest.fixture(scope="module")
def image() -> GuestImage:
    return next(found for found in list_images(IMAGES) if found.name == "tiny")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> QemuDriver:
    return QemuDriver(tmp_path_factory.mktemp("driver") / "accelerators.json")


@pytest.fixture(scope="module")
def saved(driver: QemuDriver, image: GuestImage, tmp_path_factory: pytest.TempPathFactory) -> SavedState:
    """A machine that was saved, as files."""
    directory = tmp_path_factory.mktemp("saved")
    machine = driver.boot(directory / "machine", SPEC, image, timeout_seconds=120)
    try:
        (directory / "staging").mkdir()
        return assemble(machine.capture(directory / "staging", continue_after=False), image, directory / "files")
    finally:
        machine.kill()


def stored(saved: SavedState, root: Path) -> tuple[LocalBackend, Plan]:
    backend = LocalBackend(root)
    with CheckpointWriter(backend, KEYS, ACCOUNT, None, load_index(backend, KEYS, ACCOUNT, None)) as writer:
        writer.add_image("memory", SPEC.memory_bytes, None, image_pages(saved.memory))
        return backend, plan_of(backend, writer.finish(FACTS).manifest)


@contextmanager
def served(plan: Plan, directory: Path) -> Iterator[Path]:
    """The path of the image, served by a process of its own."""
    (directory / status.MOUNT).mkdir(parents=True)
    lock = alive.acquire(directory)
    assert lock is not None
    started = start.start("serve", [str(directory)], log=directory / "daemon.log", pass_fds=(lock,))
    os.close(lock)
    status.write_process(directory, started.process.pid)
    try:
        started.go(with_names(plan, directory))
        started.control.settimeout(ANSWER_SECONDS)
        assert started.control.recv(1) == b"m", (directory / "daemon.log").read_text()
        yield directory / status.MOUNT / status.IMAGE
    finally:
        started.close()
        kill(directory, status.process_of(directory))
        unmount(directory / status.MOUNT)


def seen_by(runtime: Path, pages: list[int]) -> dict[int, bytes | None]:
    """Each page as the hypervisor would read it; None where it would get an error."""
    record = read_record(runtime, "qemu")
    assert record is not None
    pid = record["process"]["pid"]
    (segment,) = find_mapping(pid, record["memory_inode"], record["memory_bytes"])
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return {page: _page_at(memory.fileno(), segment.address + page * PAGE_BYTES) for page in pages}


def _page_at(memory: int, address: int) -> bytes | None:
    try:
        return os.pread(memory, PAGE_BYTES, address)
    except OSError:
        return None


def damage_met(directory: Path) -> bool:
    return bool(status.read(directory)["state"] == "failed")


def prove_refusal(driver: QemuDriver, image: GuestImage, saved: SavedState, scratch: Path, evidence: dict[str, Any]) -> None:
    """A machine of which one stored frame was damaged: every page that its process gets is the one that was saved, some it does not get.

    Its virtual CPUs do not run, so that nothing but the loading has written to its memory.
    """
    reference = np.memmap(saved.memory, np.uint8, "r").reshape(-1, PAGE_BYTES)
    for attempt in range(5):  # a frame that the loading itself needs ends the process before anything can be compared
        directory = scratch / str(attempt)
        backend, plan = stored(saved, directory / "store")
        held = np.flatnonzero(plan.locations >= 0)
        flip_frame(backend, plan, int(held[len(held) * (attempt + 2) // 8]))
        with served(plan, directory / "lazy") as memory:
            try:
                machine = driver.resume(directory / "machine", SPEC, image, replace(saved, memory=memory), timeout_seconds=60)
            except MachineError:
                continue
            try:
                until(partial(damage_met, directory / "lazy"), 60, "the damaged frame was met")
                seen = seen_by(machine.runtime, held.tolist())
            finally:
                with suppress(MachineError):
                    machine.kill()
        other = [page for page, found in seen.items() if found is not None and found != reference[page].tobytes()]
        refused = sum(found is None for found in seen.values())
        evidence |= {"pages": len(seen), "pages_refused": refused, "pages_unlike_what_was_saved": len(other)}
        assert refused > 0, "the damaged frame was not refused"
        assert len(other) <= LOADED_PAGES, f"pages that were not saved so: {other[:20]}"
        return
    raise AssertionError("no machine could be loaded")


#: Pages that QEMU itself writes as it loads a machine (the identity of the clone), before any virtual CPU runs.
LOADED_PAGES = 4


@pytest.mark.gate("2b", "No unverified byte reaches a machine that runs before its memory is there: a bit flipped in the store is an error")
def test_a_bit_flipped_in_the_store_is_an_error_and_never_a_byte(
    driver: QemuDriver, image: GuestImage, saved: SavedState, tmp_path: Path, evidence: dict[str, Any]
) -> None:
    prove_refusal(driver, image, saved, tmp_path, evidence)


def test_gate_2b_fails_when_reads_are_answered_with_what_was_not_verified(
    driver: QemuDriver, image: GuestImage, saved: SavedState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "PROGRAM", "tests.sabotage.unverified")
    with pytest.raises(AssertionError):
        prove_refusal(driver, image, saved, tmp_path, {})
