"""The program that gives bytes to a guest's random generator: the x86-64 one is run here, the arm64 one in its guest."""

import os
import subprocess
from pathlib import Path

import pytest

from workers.guest.elf import PT_LOAD, segments
from workers.guest.errors import ImageError
from workers.guest.seed_program import PATH, seed_program

here = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is run on an x86-64 host")


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_it_is_one_segment_that_ends_with_the_path_it_opens(architecture: str):
    content = seed_program(architecture)
    assert [(kind, offset, size) for kind, offset, _, size in segments(content)] == [(PT_LOAD, 0, len(content))]
    assert content.endswith(PATH)


def test_an_architecture_that_it_was_not_written_for_is_refused():
    with pytest.raises(ImageError, match="sparc64"):
        seed_program("sparc64")


def ran(tmp_path: Path, content: bytes, data: bytes) -> int:
    program = tmp_path / "seed"
    program.write_bytes(content)
    program.chmod(0o755)
    return subprocess.run([program], input=data, timeout=20, check=False).returncode


@here
@pytest.mark.parametrize("length", [1, 64, 4096])
def test_the_kernel_takes_the_bytes_from_root_and_refuses_anybody_else(tmp_path: Path, length: int):
    assert ran(tmp_path, seed_program("x86_64"), os.urandom(length)) == (0 if os.geteuid() == 0 else 4)


@here
def test_without_input_nothing_is_claimed(tmp_path: Path):
    assert ran(tmp_path, seed_program("x86_64"), b"") == 3


@here
def test_a_generator_that_cannot_be_opened_is_told(tmp_path: Path):
    assert ran(tmp_path, seed_program("x86_64").replace(PATH, b"/dev/urandon\0"), b"bytes") == 2
