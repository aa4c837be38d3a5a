"""The program that stands for hwclock: the x86-64 one is run here, the arm64 one in its guest."""

import os
import subprocess
from pathlib import Path

import pytest

from workers.guest.errors import ImageError
from workers.guest.hwclock_program import SCRIPT, hwclock_program

here = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is run on an x86-64 host")


def ran(tmp_path: Path, content: bytes, *arguments: str) -> tuple[int, str]:
    program = tmp_path / "hwclock"
    program.write_bytes(content)
    program.chmod(0o755)
    done = subprocess.run([program, *arguments], capture_output=True, timeout=20, check=False, env={"GIVEN": "on"}, text=True)
    return done.returncode, done.stdout


@here
def test_setting_the_hardware_clock_is_done_at_once(tmp_path: Path):
    assert ran(tmp_path, hwclock_program("x86_64"), "-w") == (0, "")


@here
@pytest.mark.parametrize("arguments", [(), ("-s",), ("-s", "second"), ("-r",)])
def test_all_else_is_the_scripts_with_the_same_arguments_and_environment(tmp_path: Path, arguments: tuple[str, ...]):
    stand_in = tmp_path / "s"
    stand_in.write_text('#!/bin/sh\necho "$GIVEN $*"\n')
    stand_in.chmod(0o755)
    path = os.path.relpath(stand_in, Path.cwd()).encode()
    content = hwclock_program("x86_64").replace(SCRIPT, path + b"\0")
    assert ran(tmp_path, content, *arguments) == (0, f"on {' '.join(arguments)}\n")


@here
def test_a_script_that_is_not_there_is_told_as_a_shell_would(tmp_path: Path):
    assert ran(tmp_path, hwclock_program("x86_64"), "-s")[0] == 127


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_it_ends_with_the_path_it_starts(architecture: str):
    assert hwclock_program(architecture).endswith(SCRIPT)


def test_an_architecture_that_it_was_not_written_for_is_refused():
    with pytest.raises(ImageError, match="sparc64"):
        hwclock_program("sparc64")
