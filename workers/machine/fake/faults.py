"""What a test can make go wrong in a fake machine."""

from dataclasses import dataclass

from workers.machine.driver import Ending


@dataclass
class FakeFaults:
    """Given to the driver, read at every verb: a test may change it while a machine lives."""

    boot_fails: str | None = None  # the message
    resume_fails: str | None = None
    silent_guest: bool = False  # the guest answers nothing; the hypervisor does
    silent_monitor: bool = False
    clock_stays_wrong: bool = False
    dies_before_its_clock: bool = False
    capture_fails_at: str | None = None  # stop, devices, disk, pages
    no_space_at: str | None = None  # the same names, with `no_space`
    guest_ended: Ending | None = None  # as if the guest had ended in this way
