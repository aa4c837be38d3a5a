"""A fake machine that also runs our guest scripts: in its own directory, by this host's busybox, as `RunsScripts` describes."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from workers.machine.fake.hypervisor import GUEST_DIRECTORY
from workers.machine.fake.machine import FakeMachine
from workers.machine.script import ScriptResult


def offer_scripts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on fake machines take files. Returns the scripts that were run, by their last argument's place: one line each."""
    ran: list[str] = []

    def script(
        self: FakeMachine, text: str, arguments: Sequence[str], *, data: bytes = b"", timeout_seconds: float, output_limit: int
    ) -> ScriptResult:
        ran.append(text)
        words = ["busybox", "sh", "-c", text, "keepstate", str(workspace_of(self)), *arguments[1:]]
        done = subprocess.run(words, input=data, capture_output=True, timeout=timeout_seconds, check=False)
        return ScriptResult(done.returncode, done.stdout[:output_limit], done.stderr.decode()[:300])

    def terminal(self: FakeMachine) -> None:
        raise NotImplementedError

    monkeypatch.setattr(FakeMachine, "script", script, raising=False)
    monkeypatch.setattr(FakeMachine, "terminal", terminal, raising=False)
    return ran


def workspace_of(machine: FakeMachine) -> Path:
    return machine.runtime / GUEST_DIRECTORY
