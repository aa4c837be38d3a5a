"""What is run in the guest for its terminal: see that a shell is there, and give the terminal a size."""

from functools import cache
from pathlib import Path

from workers.machine.driver import MachineError
from workers.machine.script import RunsScripts

SECONDS = 20.0
COLUMNS, ROWS = range(2, 500 + 1), range(2, 300 + 1)
_FOLDER = Path(__file__).parent / "sh"


def end_mark(nonce: str) -> bytes:
    """What the guest prints when the shell on the terminal ended. Terminals show nothing of it."""
    return f"\x1b_keepstate-end:{nonce}\x1b\\".encode()


def open_shell(machine: RunsScripts, columns: int, rows: int, nonce: str) -> None:
    """Raises MachineError; `exec_failed` for a guest without a terminal (saved before there was one, or another kernel)."""
    _run(machine, _text("open"), [str(columns), str(rows), nonce, _text("keeper")])


def resize(machine: RunsScripts, columns: int, rows: int) -> None:
    """Raises MachineError."""
    _run(machine, _text("size"), [str(columns), str(rows)])


def _run(machine: RunsScripts, script: str, arguments: list[str]) -> None:
    result = machine.script(script, arguments, timeout_seconds=SECONDS, output_limit=1024)
    if result.code != 0:
        raise MachineError("exec_failed", f"The machine's terminal could not be used (code {result.code}). It said: {result.stderr}")


@cache
def _text(name: str) -> str:
    return (_FOLDER / f"{name}.sh").read_text()
