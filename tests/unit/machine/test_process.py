"""Processes are recognised by more than their number, and ended only if they are the ones that were meant."""

import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.waiting import until
from workers.machine.driver import MachineError
from workers.machine.process import alive, identity, spawn
from workers.machine.process.kill import kill

WAITING = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def locked(tmp_path):
    """A process that holds the alive-lock of a directory, started as a machine is."""
    fd = alive.acquire(tmp_path)
    assert fd is not None
    pid = spawn.spawn(WAITING, tmp_path, fd, 2)
    os.close(fd)
    process = identity.identify(pid)
    yield process
    kill(tmp_path, process)


def test_a_process_is_recognised_after_its_record_was_written_and_read(locked):
    assert identity.from_record(locked.as_record()) == locked
    assert identity.is_same(locked)


@pytest.mark.parametrize("change", [{"start_time": 1}, {"boot_id": "another boot"}])
def test_the_same_number_with_another_start_or_another_boot_is_another_process(locked, change):
    assert not identity.is_same(replace(locked, **change))


@pytest.mark.parametrize(
    "record", [None, 7, {}, {"pid": "1", "start_time": 1, "boot_id": "x"}, {"pid": -1, "start_time": 1, "boot_id": "x"}]
)
def test_a_damaged_record_names_no_process(record):
    assert identity.from_record(record) is None


def test_a_command_name_with_spaces_and_parentheses_does_not_confuse_the_start_time(tmp_path):
    program = tmp_path / "a ) b (c"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([program, "600"]) as child:
        started, first = identity.start_time(child.pid), identity.start_time(1)
        assert started is not None
        assert first is not None
        assert started > first
        child.kill()


def test_a_spawned_process_has_its_own_session_no_core_file_and_no_input(locked):
    assert os.getsid(locked.pid) == locked.pid
    until(lambda: _has_begun(locked.pid), 10, "the program has taken the place of the shell that limits it")
    limits = Path(f"/proc/{locked.pid}/limits").read_text()
    assert "Max core file size        0                    0" in limits
    assert resource.prlimit(locked.pid, resource.RLIMIT_NOFILE)[0] == min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert os.readlink(f"/proc/{locked.pid}/fd/0") == "/dev/null"


def _has_begun(pid: int) -> bool:
    return Path(f"/proc/{pid}/exe").resolve() == Path(sys.executable).resolve()


def test_kill_ends_the_process_and_frees_the_lock(tmp_path, locked):
    kill(tmp_path, locked)
    assert not alive.is_held(tmp_path)
    assert identity.identify(locked.pid) is None
    kill(tmp_path, locked)


def test_a_lock_whose_holder_is_not_the_recorded_process_is_left_alone(tmp_path, locked):
    with subprocess.Popen(WAITING) as bystander:
        with pytest.raises(MachineError) as refusal:
            kill(tmp_path, identity.ProcessIdentity(bystander.pid, start_time=1, boot_id=identity.boot_id()))
        assert refusal.value.code == "kill_failed"
        assert bystander.poll() is None
        bystander.kill()
    assert alive.is_held(tmp_path)


def test_a_lock_that_no_record_explains_is_reported(tmp_path, locked):
    with pytest.raises(MachineError) as refusal:
        kill(tmp_path, None)
    assert refusal.value.code == "kill_failed"
