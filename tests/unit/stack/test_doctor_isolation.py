"""What the doctor says of how machines are kept apart."""

import os
from pathlib import Path

import pytest

from keepstate_site.stack.doctor import isolation
from keepstate_site.stack.doctor.finding import Finding, Verdict


def finding(name: str) -> Finding:
    return next(found for found in isolation.isolation() if found.name == name)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEEPSTATE_ISOLATION", "KEEPSTATE_MACHINE_UIDS", "KEEPSTATE_CGROUP"):
        monkeypatch.delenv(name, raising=False)


def test_a_user_who_is_not_root_is_told_that_machines_run_as_himself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = finding("isolation")
    assert (found.verdict, "not root" in found.text, "worker's own user" in found.text) == (Verdict.WARN, True, True)


def test_isolation_that_is_required_and_not_possible_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("KEEPSTATE_ISOLATION", "required")
    assert finding("isolation").verdict is Verdict.FAIL


def test_isolation_that_is_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTATE_ISOLATION", "off")
    assert finding("isolation").verdict is Verdict.WARN


def test_control_groups_are_asked_for_what_they_need(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert finding("cgroup").verdict is Verdict.WARN
    monkeypatch.setenv("KEEPSTATE_CGROUP", str(tmp_path))
    assert "not a cgroup v2 directory" in finding("cgroup").text
    (tmp_path / "cgroup.controllers").write_text("cpu io memory\n")
    assert "no controller pids" in finding("cgroup").text
    (tmp_path / "cgroup.controllers").write_text("cpu io memory pids\n")
    assert finding("cgroup").verdict is Verdict.OK
