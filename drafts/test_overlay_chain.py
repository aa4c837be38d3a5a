"""The chain of overlays of a machine that is saved again and again while it writes its disk."""

import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.driver_suite import BOOT_SECONDS, GUEST_SECONDS, run
from tests.machine_kit import assemble
from workers import crash
from workers.machine.driver import Capture, GuestImage, Machine, MachineSpec, MachineState, SavedState
from workers.machine.qemu import flatten
from workers.machine.qemu.driver import QemuDriver
from workers.save.capture import _disk_units, _not_covered

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]
SAVES, ASSEMBLED = 20, (4, 12, 19)
Disk = dict[int, bytes | None]  # by unit: its bytes where they differ from the image's, None for zeros


class Died(BaseException):
    pass


class Saver:
    """Saves as the product does, and keeps what a line of deltas would hold of the disk."""

    def __init__(self, driver: QemuDriver, image: GuestImage, directory: Path):
        self.driver, self.image, self.directory = driver, image, directory
        self.spec = MachineSpec("session", 512 << 20, 1)
        self.machine: Machine = driver.boot(directory / "machine", self.spec, image, timeout_seconds=BOOT_SECONDS)
        self.newest, self.line = "", Disk()
        self._numbers = itertools.count()

    def capture(self) -> Capture:
        staging = self.directory / f"staging-{next(self._numbers)}"
        staging.mkdir()
        return self.machine.capture(staging)

    def save(self) -> Capture:
        capture = self.capture()
        self._apply(_not_covered(capture, self.newest))
        self.newest = capture.overlays[-1].name
        return capture

    def overlays(self) -> list[str]:
        return sorted(path.name for path in (self.directory / "machine").glob("overlay-*"))

    def whole(self, capture: Capture) -> Disk:
        kept, self.line = self.line, Disk()
        self._apply(capture.overlays)
        found, self.line = self.line, kept
        return found

    def resume(self, saved: SavedState, name: str) -> Machine:
        machine = self.driver.resume(self.directory / name, self.spec, self.image, saved, timeout_seconds=GUEST_SECONDS)
        machine.run()
        machine.greet(GUEST_SECONDS)
        return machine

    def _apply(self, overlays: tuple[Path, ...]) -> None:
        assert self.image.disk is not None
        differing, equal, zero = _disk_units(self.image.disk, overlays)
        for unit in equal.tolist():
            self.line.pop(unit, None)
        self.line |= dict.fromkeys(zero.tolist())
        for units, content in differing.batches():
            pieces = np.frombuffer(content, np.uint8).reshape(len(units), -1)
            self.line |= {unit: piece.tobytes() if piece.any() else None for unit, piece in zip(units.tolist(), pieces, strict=True)}


@pytest.fixture(scope="module")
def saver(tmp_path_factory: pytest.TempPathFactory, python_image: GuestImage) -> Iterator[Saver]:
    directory = tmp_path_factory.mktemp("chain")
    saver = Saver(QemuDriver(directory / "proofs"), python_image, directory)
    try:
        yield saver
    finally:
        saver.machine.kill()


def write(saver: Saver, moment: str) -> None:
    """A file that stays, one that is written over, and one that goes."""
    run(
        saver.machine,
        f"head -c 300000 /dev/urandom > f{moment}; rm -f gone-*; head -c 200000 /dev/urandom > gone-{moment}; "
        f"echo {moment} > now; sha256sum f* gone-* now > /tmp/sums; mv /tmp/sums sums; sync",
    )


def fill(saver: Saver) -> None:
    """Saves until the next one is due to flatten."""
    while len(saver.overlays()) < flatten.MAX_OVERLAYS:
        write(saver, f"fill{len(saver.overlays())}")
        saver.save()


def check_goes_on(saver: Saver) -> None:
    assert saver.machine.inspect().state is MachineState.RUNNING
    write(saver, "after")
    capture = saver.save()
    assert saver.whole(capture) == saver.line
    assert run(saver.machine, "echo 3 > /proc/sys/vm/drop_caches; sha256sum -c sums >/dev/null && cat now") == "after"


def test_twenty_saves_leave_a_short_chain_and_each_holds_its_own_moment(saver: Saver, tmp_path: Path) -> None:
    saved = {}
    for number in range(SAVES):
        write(saver, str(number))
        capture = saver.save()
        assert len(saver.overlays()) <= flatten.MAX_OVERLAYS
        assert len(capture.overlays) < flatten.MAX_OVERLAYS
        assert saver.whole(capture) == saver.line
        if number in ASSEMBLED:
            saved[number] = assemble(capture, saver.image, tmp_path / f"saved-{number}")
    for number, state in saved.items():
        machine = saver.resume(state, f"resumed-{number}")
        try:
            checked = run(machine, "echo 3 > /proc/sys/vm/drop_caches; sha256sum -c sums >/dev/null && cat now && ls gone-*")
        finally:
            machine.kill()
        assert checked == f"{number}\ngone-{number}"
    assert_file_system_is_whole(saved[SAVES - 1], tmp_path)


def assert_file_system_is_whole(state: SavedState, directory: Path) -> None:
    raw = directory / "disk.raw"
    subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", str(state.disk), raw], check=True)
    mended = subprocess.run(["e2fsck", "-p", raw], check=False, capture_output=True, text=True)  # it was mounted: its counts may lag behind
    assert mended.returncode <= 1, mended.stdout
    found = subprocess.run(["e2fsck", "-fn", raw], check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_a_flattening_whose_worker_dies_is_finished_by_the_next_save(saver: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(saver)

    def die(step: str) -> None:
        if step == "flattening":
            raise Died

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(crash, "reach", die)
        saver.capture()
    check_goes_on(saver)
    assert len(saver.overlays()) < flatten.MAX_OVERLAYS


def test_a_flattening_that_takes_too_long_is_broken_off_and_the_save_succeeds(saver: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(saver)
    with monkeypatch.context() as patch:
        patch.setattr(flatten, "FLATTEN_SECONDS", 0.0)
        check_goes_on(saver)
    check_goes_on(saver)


def test_without_room_the_chain_stays_and_the_save_succeeds(saver: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(saver)
    with monkeypatch.context() as patch:
        patch.setattr(flatten, "KEEP_FREE_BYTES", 1 << 60)
        check_goes_on(saver)
        assert len(saver.overlays()) > flatten.MAX_OVERLAYS
    check_goes_on(saver)
    assert len(saver.overlays()) < flatten.MAX_OVERLAYS


def test_a_job_that_qemu_refuses_leaves_the_chain_as_it_was(saver: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(saver)
    with monkeypatch.context() as patch:
        patch.setattr(flatten, "_name_below", lambda *_: "x" * 5000)
        check_goes_on(saver)
    check_goes_on(saver)
