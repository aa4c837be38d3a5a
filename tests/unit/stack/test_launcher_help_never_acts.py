import sys
from pathlib import Path

import pytest

from keepstate_site.stack import __main__ as stack
from tests.bench import __main__ as bench
from tests.unit.stack import launcher

#: What each is handed to.
MODULES = {
    "demo": "keepstate_site.demo",
    "up": "keepstate_site.stack up",
    "test": "keepstate_site.stack test",
    "bench": "tests.bench",
    "prove": "tests.gates",
    "doctor": "keepstate_site.stack doctor",
    "host": "keepstate_site.stack host",
    "manage": "keepstate_site.stack manage",
    "provider": "keepstate_site.provider",
}


@pytest.mark.parametrize(
    "argv", [[], ["help"], ["--help"], ["-h"], *([name, "--help"] for name in MODULES), ["bench", "resume", "-h"]], ids=" ".join
)
def test_before_a_set_up_help_prints_the_usage_and_touches_nothing(tmp_path: Path, argv: list[str]) -> None:
    machine = launcher.make(tmp_path)
    answer = machine.run("./keepstate", *argv)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("usage: ./keepstate COMMAND")
    assert machine.calls == []
    assert not (tmp_path / "var").exists()


def test_after_a_set_up_each_command_says_of_itself_what_it_takes_and_nothing_is_set_up_for_it(tmp_path: Path) -> None:
    machine = launcher.with_python(tmp_path)
    assert machine.packages("ensure_venv base.txt test.txt", KEEPSTATE_PYTHON=str(machine.bin / "python3")).returncode == 0
    before = len(machine.calls)
    for name in MODULES:
        assert machine.run("./keepstate", name, "word", "--help").returncode == 0
    assert machine.calls[before:] == [f"python3 -B -m {module} word --help" for module in MODULES.values()]


def test_what_comes_after_two_dashes_asks_for_no_help(tmp_path: Path) -> None:
    answer = launcher.make(tmp_path).run("./keepstate", "setup", "nothing", "--", "-h")
    assert "setup knows no 'nothing -- -h'" in answer.stderr


def test_set_up_tells_its_own_words(tmp_path: Path) -> None:
    assert (
        launcher.make(tmp_path)
        .run("./keepstate", "setup", "--help")
        .stdout.startswith("usage: ./keepstate setup [python [--no-compile] | images]")
    )


@pytest.mark.parametrize("argv", [["bench", "scale"], ["test"], ["up"], ["host", "--id", "h-1"]], ids=" ".join)
def test_help_is_the_commands_own(argv: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    of_bench = argv[0] == "bench"
    monkeypatch.setattr(sys, "argv", ["", *argv[of_bench:], "--help"])
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(bench.main() if of_bench else stack.main(sys.argv[1:]))
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: keepstate {' '.join(argv[: 1 + of_bench])}")


def test_an_unknown_command_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path)
    answer = machine.run("./keepstate", "dmeo")
    assert answer.returncode == 1
    assert "there is no command 'dmeo'" in answer.stderr
    assert machine.calls == []
    assert not (tmp_path / "var").exists()
