"""When the launcher makes the Python environment, and when it leaves it alone."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from keepstate_site import bytecode
from tests.unit.stack import launcher


def pips(machine: launcher.FakeMachine) -> list[str]:
    return [call for call in machine.calls if "-m pip install" in call]


def ensure(machine: launcher.FakeMachine, *files: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return machine.packages(f"ensure_venv {' '.join(files)}", KEEPSTATE_PYTHON=str(machine.bin / "python3"), **env)


def test_requirements_are_installed_by_hash_once_and_then_left_alone(tmp_path: Path) -> None:
    machine = launcher.with_python(tmp_path)
    first = ensure(machine, "base.txt")
    assert first.returncode == 0, first.stderr
    assert "--require-hashes" in pips(machine)[0]
    before = machine.calls
    second = ensure(machine, "base.txt")
    assert second.returncode == 0, second.stderr
    assert second.stdout == ""
    assert machine.calls == before


def set_up(machine: launcher.FakeMachine, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    python = str(machine.bin / "python3")
    return machine.run("./keepstate", "setup", "python", *words, KEEPSTATE_PYTHON=python, KEEPSTATE_SKIP_PACKAGES="1", **env)


def compiled(machine: launcher.FakeMachine) -> bool:
    return any("keepstate_site.bytecode" in call for call in machine.calls)


def test_set_up_leaves_bytecode_for_those_that_may_not_write_it_even_where_the_environment_forbids_it(tmp_path: Path) -> None:
    machine = launcher.with_python(tmp_path)
    answer = set_up(machine, PYTHONDONTWRITEBYTECODE="1")
    assert (answer.returncode, compiled(machine)) == (0, True), answer.stderr
    assert "bytecode is written" in (tmp_path / "var/log/setup.log").read_text()


def test_set_up_leaves_none_where_it_is_told_so(tmp_path: Path) -> None:
    machine = launcher.with_python(tmp_path)
    assert (set_up(machine, "--no-compile").returncode, compiled(machine)) == (0, False)


def test_without_bytecode_only_time_is_lost(tmp_path: Path) -> None:
    answer = set_up(launcher.with_python(tmp_path), FAIL_COMPILE="1")
    assert answer.returncode == 0
    assert "going on without" in answer.stdout


def test_all_that_is_compiled_ahead_is_there() -> None:
    assert [name for name in bytecode.ENTRIES if find_spec(name) is None] == []


def test_changing_between_commands_installs_nothing_anew(tmp_path: Path) -> None:
    machine = launcher.with_python(tmp_path)
    for files in (["base.txt"], ["base.txt", "test.txt"], ["base.txt"], ["base.txt", "test.txt"]):
        assert ensure(machine, *files).returncode == 0
    assert len(pips(machine)) == 2


def test_an_install_that_failed_is_explained_and_made_again(tmp_path: Path) -> None:
    machine = launcher.with_python(tmp_path)
    failed = ensure(machine, "base.txt", FAIL_PIP="1")
    assert failed.returncode == 1
    assert "pip could not install the requirements; nothing was started" in failed.stderr
    assert ensure(machine, "base.txt").returncode == 0
    assert len(pips(machine)) == 2


def test_this_python_is_usable_and_a_missing_one_is_not(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path)
    assert machine.packages(f"usable_python {sys.executable}").returncode == 0
    assert machine.packages("usable_python /nonexistent/python3").returncode != 0
