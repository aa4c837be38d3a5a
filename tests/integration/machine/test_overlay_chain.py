"""The chain of overlays of a machine that is saved again and again while its guest writes to its disk."""

import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.machine_kit import BOOT_SECONDS, GUEST_SECONDS, assemble, run
from workers import crash
from workers.host.note import read_note, write_note
from workers.machine.driver import Capture, GuestImage, Machine, MachineSpec, MachineState, SavedState
from workers.machine.qemu import flatten
from workers.machine.qemu.argv import OPERATIONS_SOCKET
from workers.machine.qemu.disk import live_overlays
from workers.machine.qemu.driver import QemuDriver
from workers.machine.qemu.monitor import Monitor
from workers.save import chain
from workers.save.capture import _disk_units, _not_covered
from workers.save.chain import keep_short

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]
SAVES, LONGEST = 6, 4  # with the longest chain of the product the same takes more saves
SLOW = 64 * 1024  # bytes of a flattening in a second, where it must not end before its test
CHECK = "echo 3 > /proc/sys/vm/drop_caches; sha256sum -c sums >/dev/null && cat now"
#: It runs as long as the machine does, on an emulated processor, so it takes its time.
BUSY = "while :; do head -c 200000 /dev/urandom > /root/busy; sync; sleep 0.3; done"
Disk = dict[int, bytes | None]  # by unit: its bytes where they differ from the image's, None for zeros


class Died(BaseException):
    """The worker's end, as far as one process can play it."""


class Saver:
    """Saves as the product does, and keeps what a line of deltas would hold of the disk."""

    def __init__(self, driver: QemuDriver, image: GuestImage, directory: Path):
        self.driver, self.image, self.directory, self.runtime = driver, image, directory, directory / "machine"
        self.spec = MachineSpec("session", 256 << 20, 1)
        self.machine: Machine = driver.boot(self.runtime, self.spec, image, timeout_seconds=BOOT_SECONDS)
        self.line, self._numbers = Disk(), itertools.count()

    def capture(self) -> Capture:
        staging = self.directory / f"staging-{next(self._numbers)}"
        staging.mkdir()
        return self.machine.capture(staging)

    def overlays(self) -> tuple[Path, ...]:
        """Of a capture of which nothing else is of interest."""
        capture = self.capture()
        shutil.rmtree(capture.pages.parent)
        return capture.overlays

    def save(self) -> Capture:
        """One that is published: its delta is added to the line, which is then compared with all that the overlays hold."""
        capture, name = self.capture(), f"checkpoint-{next(self._numbers)}"
        self.line = self._applied(self.line, _not_covered(capture, read_note(self.runtime).get("overlay", "")))
        assert self.line == self._applied({}, capture.overlays)
        write_note(self.runtime, checkpoint=name, overlay=capture.overlays[-1].name)
        keep_short(self.machine, capture.overlays, published=name)
        return capture

    def fail_to_save(self) -> None:
        keep_short(self.machine, self.overlays(), published=None)

    def files(self) -> int:
        return len(list(self.runtime.glob("overlay-*")))

    def resume(self, saved: SavedState, name: str) -> Machine:
        machine = self.driver.resume(self.directory / name, self.spec, self.image, saved, timeout_seconds=GUEST_SECONDS)
        machine.run()
        machine.greet(GUEST_SECONDS)
        return machine

    def _applied(self, below: Disk, overlays: tuple[Path, ...]) -> Disk:
        assert self.image.disk is not None
        differing, equal, zero = _disk_units(self.image.disk, overlays)
        as_in_image = set(equal.tolist())
        found = {unit: data for unit, data in below.items() if unit not in as_in_image} | dict.fromkeys(zero.tolist())
        for units, content in differing.batches():
            pieces = np.frombuffer(content, np.uint8).reshape(len(units), -1)
            found |= {unit: piece.tobytes() if piece.any() else None for unit, piece in zip(units.tolist(), pieces, strict=True)}
        return found


@pytest.fixture(scope="module")
def saver(tmp_path_factory: pytest.TempPathFactory, python_image: GuestImage) -> Iterator[Saver]:
    directory = tmp_path_factory.mktemp("chain")
    saver = Saver(QemuDriver(directory / "proofs"), python_image, directory)
    try:
        run(saver.machine, f"nohup sh -c '{BUSY}' >/dev/null 2>&1 & echo busy")
        yield saver
    finally:
        saver.machine.kill()


@pytest.fixture(autouse=True)
def _short_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "MAX_OVERLAYS", LONGEST)


def write(saver: Saver, moment: str) -> None:
    """A file that stays, one that is written over, and one that goes."""
    run(
        saver.machine,
        f"head -c 100000 /dev/urandom > f{moment}; rm -f gone-*; head -c 100000 /dev/urandom > gone-{moment}; "
        f"echo {moment} > now; sha256sum f* gone-* now > /tmp/sums; mv /tmp/sums sums; sync",
    )


def statuses(monitor: Monitor) -> list[str]:
    jobs = monitor.call("query-jobs")
    assert isinstance(jobs, list)
    return [job["status"] for job in jobs]


def fill(saver: Saver) -> None:
    """Saves until the next one is due to flatten."""
    while saver.files() < LONGEST - 1:
        run(saver.machine, "head -c 100000 /dev/urandom > fill; sync")
        saver.save()


def check_goes_on(saver: Saver) -> None:
    assert saver.machine.inspect().state is MachineState.RUNNING
    write(saver, "after")
    saver.save()
    assert run(saver.machine, CHECK) == "after"


def test_many_saves_leave_a_short_chain_and_what_follows_a_flattening_is_whole(saver: Saver, tmp_path: Path) -> None:
    lengths = []
    for number in range(SAVES):
        write(saver, str(number))
        capture = saver.save()
        lengths.append(saver.files())
    assert lengths == [2, 3, 2, 3, 2, 3]
    assert run(saver.machine, CHECK) == str(SAVES - 1)
    saved = assemble(capture, saver.image, tmp_path / "saved")
    machine = saver.resume(saved, "resumed")
    try:
        assert run(machine, f"{CHECK} && ls gone-*") == f"{SAVES - 1}\ngone-{SAVES - 1}"
    finally:
        machine.kill()
    assert_file_system_is_whole(saved, tmp_path)


def assert_file_system_is_whole(state: SavedState, directory: Path) -> None:
    raw = directory / "disk.raw"
    subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", str(state.disk), raw], check=True)
    mended = subprocess.run(["e2fsck", "-p", raw], check=False, capture_output=True, text=True)  # it was mounted: its counts may lag behind
    assert mended.returncode <= 1, mended.stdout
    found = subprocess.run(["e2fsck", "-fn", raw], check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_overlays_of_failed_saves_are_flattened_too_and_the_next_save_holds_them(saver: Saver) -> None:
    fill(saver)
    check_goes_on(saver)  # flattens, so that the kept overlay's name stands in the note
    assert read_note(saver.runtime)["overlay"] == "overlay-0.qcow2"
    for number in range(LONGEST - 2):
        write(saver, f"failed{number}")
        saver.fail_to_save()
    assert saver.files() == 2
    check_goes_on(saver)


def test_a_flattening_whose_worker_dies_is_waited_for_by_the_next_save(saver: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(saver)

    def die(step: str) -> None:
        if step == "flattening":
            raise Died

    write(saver, "dies")
    with monkeypatch.context() as patch:
        patch.setattr(flatten, "BYTES_PER_SECOND", SLOW)
        patch.setattr(crash, "reach", die)
        with pytest.raises(Died):
            saver.save()
    with Monitor(saver.runtime, OPERATIONS_SOCKET) as monitor:
        assert statuses(monitor) == ["running"]
        monitor.call("block-job-set-speed", {"device": flatten.JOB, "speed": 0})
    check_goes_on(saver)
    assert saver.files() == 3


def test_a_flattening_that_takes_too_long_is_broken_off_by_the_next_save(saver: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(saver)
    with monkeypatch.context() as patch:
        patch.setattr(flatten, "BYTES_PER_SECOND", SLOW)
        patch.setattr(flatten, "SOON_SECONDS", 0.0)
        patch.setattr(flatten, "WAIT_SECONDS", 0.0)
        check_goes_on(saver)
        assert saver.files() == LONGEST
        write(saver, "more")
        assert len(saver.overlays()) == LONGEST
    check_goes_on(saver)
    assert saver.files() == 2


def test_without_room_the_chain_stays_as_it_is(saver: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    overlays = saver.overlays()
    with monkeypatch.context() as patch:
        patch.setattr(flatten, "KEEP_FREE_BYTES", 1 << 60)
        assert not saver.machine.flatten(overlays)
    assert saver.overlays()[:-1] == overlays
    check_goes_on(saver)


def test_overlays_that_a_later_capture_reads_too_are_not_flattened(saver: Saver) -> None:
    saver.save()
    first = saver.overlays()
    with Monitor(saver.runtime, OPERATIONS_SOCKET) as monitor:
        seen = live_overlays(monitor, saver.runtime)
    second = saver.overlays()
    assert not saver.machine.flatten(first)
    with Monitor(saver.runtime, OPERATIONS_SOCKET) as monitor:  # a worker that was held up after it had looked
        assert not flatten._begin(monitor, saver.runtime, seen)
        assert live_overlays(monitor, saver.runtime)[:-1] == list(second)
    check_goes_on(saver)


def test_a_hypervisor_that_dies_while_it_flattens_harms_no_checkpoint(
    saver: Saver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(saver)
    write(saver, "last")
    with monkeypatch.context() as patch:
        patch.setattr(flatten, "BYTES_PER_SECOND", SLOW)
        capture = saver.capture()
        saved = assemble(capture, saver.image, tmp_path / "saved")
        patch.setattr(flatten, "SOON_SECONDS", 0.0)
        assert not saver.machine.flatten(capture.overlays)
        with Monitor(saver.runtime, OPERATIONS_SOCKET) as monitor:
            assert statuses(monitor) == ["running"]
        os.kill(saver.machine.inspect().pid or 0, signal.SIGKILL)
        saver.machine.kill()
    machine = saver.resume(saved, "after-death")
    try:
        assert run(machine, CHECK) == "last"
    finally:
        machine.kill()
