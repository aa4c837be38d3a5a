"""What an image promises to whoever boots it."""

import time
from pathlib import Path

import pytest

from tests.integration.guest.plain_machine import ANSWER_SECONDS, PlainMachine
from workers.guest.image import verify_image
from workers.machine.driver import GuestImage

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]


def until(condition, what: str) -> None:
    deadline = time.monotonic() + ANSWER_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"never came: {what}")
        time.sleep(0.05)


def test_the_guest_answers_a_ping(machine: PlainMachine):
    assert machine.call("guest-ping") == {}


def test_nothing_but_the_agent_and_the_relay_runs_beside_pid_1(machine: PlainMachine):
    # A thread of the kernel has no memory of its own.
    names = machine.shell("for p in /proc/[0-9]*; do grep -q VmSize $p/status && cat $p/comm; done 2>/dev/null").split()
    assert names[0] == "init"
    assert set(names) <= {"init", "qemu-ga", "sh", "grep", "cat", "nice", "python3"}


def test_the_relay_of_model_calls_listens_where_there_is_a_python_and_comes_back_when_it_is_killed(
    machine: PlainMachine, image: GuestImage
):
    if image.name == "tiny":
        assert machine.shell("ls -d /usr/lib/keepstate/relay 2>/dev/null") == ""
        return
    assert machine.wrapped(60, 100, "true").code == 0  # waits for the relay
    connect = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8790)); print(1)'"
    assert machine.shell(connect) == "1\n"
    served = machine.shell("pgrep -f relay.service").split()
    machine.shell(f"kill -KILL {served[-1]}")
    assert machine.shell(connect) == "1\n"  # the socket is the first process's: nobody is refused
    until(lambda: len(machine.shell("pgrep -f relay.service").split()) == len(served), "another process that serves")


def test_programs_and_login_shells_find_the_sessions_environment(machine: PlainMachine):
    machine.shell("echo export KEEPSTATE_TOLD=yes >/run/keepstate/environment")
    assert machine.wrapped(60, 100, "sh", "-c", "echo $KEEPSTATE_TOLD").stdout == b"yes\n"
    assert machine.wrapped(60, 100, "env", "KEEPSTATE_TOLD=no", "sh", "-c", "echo $KEEPSTATE_TOLD").stdout == b"no\n"
    assert machine.shell("sh -l -c 'echo $KEEPSTATE_TOLD'") == "yes\n"
    machine.shell("rm /run/keepstate/environment")
    assert machine.wrapped(60, 100, "true").code == 0


def test_programs_find_path_home_and_a_utf8_locale(machine: PlainMachine):
    found = machine.shell('echo "$HOME $LANG $PATH"').split()
    assert found[:2] == ["/root", "C.UTF-8"]
    assert {"/usr/local/bin", "/usr/bin", "/bin", "/sbin"} <= set(found[2].split(":"))


def test_loopback_works_and_the_usual_devices_are_there(machine: PlainMachine):
    assert "127.0.0.1" in machine.shell("cat /proc/net/fib_trie")
    assert machine.shell("echo through >/dev/shm/a && cat /dev/fd/0 </dev/shm/a") == "through\n"
    assert machine.shell("[ -c /dev/ptmx ] && [ -c /dev/pts/ptmx ] && echo pts") == "pts\n"


def test_the_hypervisors_randomness_and_generation_id_have_drivers(machine: PlainMachine):
    assert machine.shell("cat /sys/class/misc/hw_random/rng_current").startswith("virtio_rng")
    assert "QEMUVGID" in machine.shell("ls /sys/bus/acpi/drivers/vmgenid/")


def test_the_clock_is_set_to_an_explicit_time(machine: PlainMachine):
    wanted = 2_000_000_000
    machine.call("guest-set-time", time=wanted * 10**9)
    assert wanted <= int(machine.shell("date +%s")) < wanted + ANSWER_SECONDS


def test_the_clock_is_set_from_the_hosts_clock(machine: PlainMachine):
    machine.call("guest-set-time", time=10**18)
    machine.call("guest-set-time")
    assert abs(int(machine.shell("date +%s")) - time.time()) < ANSWER_SECONDS


def test_fresh_bytes_are_in_use_at_once_from_input_and_as_hexadecimal(machine: PlainMachine):
    assert machine.run("/usr/lib/keepstate/seed", data=bytes(range(64))).code == 0
    assert machine.run("/usr/lib/keepstate/seed").code == 3
    assert machine.run("/usr/lib/keepstate/reseed", data=bytes(range(64))).code == 0
    assert machine.run("/usr/lib/keepstate/reseed", "00ff" * 16).code == 0
    assert machine.run("/usr/lib/keepstate/reseed", "xyz").code == 2
    assert machine.run("/usr/lib/keepstate/reseed", "abc").code == 2


def test_orphans_that_end_are_reaped(machine: PlainMachine):
    machine.shell("for n in 1 2 3 4 5; do (sleep 0.1 &) ; done")
    until(lambda: " Z" not in machine.shell("cat /proc/[0-9]*/stat 2>/dev/null | grep -F ') Z'"), "a process table without zombies")


def test_an_agent_that_dies_comes_back(machine: PlainMachine):
    before = agent(machine)
    machine.send("guest-exec", path="/bin/sh", arg=["-c", f"kill -KILL {before}"])
    until(lambda: agent(machine) not in ("", before), "another agent")


def agent(machine: PlainMachine) -> str:
    """The agent's process id, "" if it died before it could say (its successor does not know what it had started)."""
    machine.synchronise()
    try:
        return machine.shell("cat /proc/[0-9]*/stat | grep -F '(qemu-ga) S'", seconds=5).split()[0]
    except (TimeoutError, IndexError, RuntimeError):
        return ""


def test_the_image_is_what_its_digest_says(image: GuestImage):
    assert verify_image(image.kernel.parent).digest == image.digest == image.kernel.parent.name


def test_the_disk_is_writable_and_the_image_under_it_is_not_touched(machine: PlainMachine, image: GuestImage):
    before = [path.stat().st_mtime_ns for path in image.kernel.parent.iterdir()]
    assert machine.shell("dd if=/dev/urandom of=/root/file bs=64k count=16 2>/dev/null; sync; wc -c </root/file").strip() == str(16 * 65536)
    assert [path.stat().st_mtime_ns for path in image.kernel.parent.iterdir()] == before


def test_the_agents_programs_are_in_the_image(machine: PlainMachine, image: GuestImage):
    if image.disk is None:
        pytest.skip("tiny has no programs beside busybox")
    for program in ("python3", "git", "curl", "tmux"):
        assert machine.shell(f"command -v {program}") != ""
    count = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    assert int(machine.run("/usr/bin/python3", "-c", count).stdout) > 50


@pytest.mark.parametrize(
    ("image", "how"),
    [("tiny", "powerdown"), ("tiny", "halt"), ("tiny", "reboot"), ("debian-python", "powerdown")],  # both have the same init
    indirect=["image"],
)
def test_guest_shutdown_ends_the_machine(image: GuestImage, tmp_path: Path, how: str):
    machine = PlainMachine(image, tmp_path)
    try:
        machine.send("guest-shutdown", mode=how)
        assert machine.process.wait(ANSWER_SECONDS) == 0
    finally:
        machine.kill()
