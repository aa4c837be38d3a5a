"""The alive-lock: held exactly as long as some process has the file open that took it."""

import os
import subprocess
import sys
from pathlib import Path

from workers.machine.process import alive


def taken(directory: Path) -> int:
    fd = alive.acquire(directory)
    assert fd is not None
    return fd


def test_a_directory_without_a_lock_file_holds_nothing(tmp_path):
    assert not alive.is_held(tmp_path)
    assert not alive.is_held(tmp_path / "absent")


def test_the_lock_is_taken_once(tmp_path):
    fd = taken(tmp_path)
    assert alive.is_held(tmp_path)
    assert alive.acquire(tmp_path) is None
    os.close(fd)
    assert not alive.is_held(tmp_path)


def test_the_lock_lives_on_in_the_child_after_the_spawner_closed_its_own_copy(tmp_path):
    fd = taken(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(fd,))
    os.close(fd)
    assert alive.is_held(tmp_path)
    child.kill()
    child.wait()
    assert not alive.is_held(tmp_path)


def test_a_zombie_holds_no_lock(tmp_path):
    fd = taken(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(fd,))
    os.close(fd)
    child.kill()
    assert alive.wait_until_free(tmp_path, 10)  # not yet reaped
    child.wait()


def test_a_child_that_was_not_given_the_lock_does_not_hold_it(tmp_path):
    fd = taken(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    os.close(fd)
    assert not alive.is_held(tmp_path)
    child.kill()
    child.wait()


def test_looking_at_the_lock_does_not_take_it(tmp_path):
    os.close(taken(tmp_path))
    assert not alive.is_held(tmp_path)
    fd = taken(tmp_path)
    assert fd is not None
    os.close(fd)


def test_a_lock_file_that_was_replaced_does_not_count_as_taken(tmp_path):
    old = taken(tmp_path)
    (tmp_path / alive.LOCK_NAME).unlink()
    new = taken(tmp_path)
    assert new is not None
    os.close(old)
    assert alive.is_held(tmp_path)
    os.close(new)
