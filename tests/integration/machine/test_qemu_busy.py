"""Requests that arrive while a machine is saved: each is carried out once, before the moment or after it, and none is lost."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.driver_suite import DriverSuite
from tests.machine_kit import BOOT_SECONDS, GUEST_SECONDS, assemble, run
from workers.machine.driver import GuestImage, MachineSpec
from workers.machine.qemu.driver import QemuDriver

pytestmark = pytest.mark.vm
SAVES, TALKERS = 4, 3
SPEC = MachineSpec("session", 128 << 20, 1)


def test_commands_that_arrive_during_saves_run_once_each(tmp_path: Path, tiny_image: GuestImage) -> None:
    driver = QemuDriver(tmp_path / "proofs")
    machine = driver.boot(tmp_path / "machine", SPEC, tiny_image, timeout_seconds=BOOT_SECONDS)
    try:
        saving, said = [True], list[str]()

        def talk(talker: int) -> None:
            number = 0
            while saving[0] or not number:
                run(machine, f"echo {talker}.{number} >> /tmp/heard")
                said.append(f"{talker}.{number}")
                number += 1

        with ThreadPoolExecutor(TALKERS) as pool:
            talks = [pool.submit(talk, talker) for talker in range(TALKERS)]
            try:
                captures = []
                for number in range(SAVES):
                    (tmp_path / f"staging{number}").mkdir()
                    captures.append(machine.capture(tmp_path / f"staging{number}"))
            finally:
                saving[0] = False
            for ended in talks:
                ended.result(GUEST_SECONDS)
        heard = run(machine, "cat /tmp/heard").split()
        assert sorted(heard) == sorted(said), "each once, none lost"
        machine.kill()
        resumed = driver.resume(
            tmp_path / "resumed", SPEC, tiny_image, assemble(captures[-1], tiny_image, tmp_path / "saved"), timeout_seconds=GUEST_SECONDS
        )
        resumed.run()
        resumed.greet(GUEST_SECONDS)
        kept = run(resumed, "cat /tmp/heard").split()
        assert kept == heard[: len(kept)], "the saved moment holds what was done by then, and nothing half done"
    finally:
        DriverSuite.end(driver, tmp_path)
