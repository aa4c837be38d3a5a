from pathlib import Path

import pytest

from tests.unit.stack import launcher

COMMANDS = ["demo", "up", "test", "bench", "prove", "setup", "doctor", "host", "manage", "provider"]


@pytest.mark.parametrize(
    "argv", [[], ["help"], ["--help"], ["-h"], *([name, "--help"] for name in COMMANDS), ["bench", "resume", "-h"]], ids=" ".join
)
def test_help_prints_the_usage_and_touches_nothing(tmp_path: Path, argv: list[str]) -> None:
    machine = launcher.make(tmp_path)
    answer = machine.run("./keepstate", *argv)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("usage: ./keepstate COMMAND")
    assert machine.calls == []
    assert not (tmp_path / "var").exists()


def test_an_unknown_command_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path)
    answer = machine.run("./keepstate", "dmeo")
    assert answer.returncode == 1
    assert "there is no command 'dmeo'" in answer.stderr
    assert machine.calls == []
    assert not (tmp_path / "var").exists()
