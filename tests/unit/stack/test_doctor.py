import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstate_site.stack.doctor import report
from keepstate_site.stack.doctor.finding import Finding, Verdict, examine, failed, ok, unknown, warn
from keepstate_site.stack.doctor.installation import address_of
from keepstate_site.stack.paths import PROJECT


def doctor(directory: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ["PATH"], "KEEPSTATE_VAR": str(directory / "var"), **env}
    argv = [sys.executable, "-m", "keepstate_site.stack", "doctor", "--json", str(directory / "found.json")]
    return subprocess.run(argv, env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False)


def findings(directory: Path) -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in json.loads((directory / "found.json").read_text())["findings"]}


def test_a_missing_program_fails_and_the_way_to_get_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    answer = doctor(tmp_path, PATH=str(tmp_path / "bin"))
    assert answer.returncode == 1
    found = findings(tmp_path)
    assert found["redis"]["verdict"] == "FAIL"
    assert "apt-get install redis-server" in found["redis"]["fix"]
    assert "failed: " in answer.stdout


def test_what_cannot_be_checked_is_unknown_and_never_ok(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    doctor(tmp_path, PATH=str(tmp_path / "bin"))
    assert findings(tmp_path)["packages"]["verdict"] == "unknown"
    assert findings(tmp_path)["settings"]["verdict"] == "unknown"


def test_an_architecture_that_this_host_cannot_emulate_is_a_warning_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    own = tmp_path / "bin" / f"qemu-system-{os.uname().machine}"
    own.write_text("#!/bin/sh\necho QEMU emulator version 7.2\n")
    own.chmod(0o755)
    doctor(tmp_path, PATH=str(tmp_path / "bin"))
    (other,) = {"x86_64", "aarch64"} - {os.uname().machine}
    found = findings(tmp_path)[f"qemu {other}"]
    assert (found["verdict"], f"no {other} sessions" in found["text"]) == ("warn", True)
    assert "apt-get install qemu-system-" in found["fix"]


def test_the_doctor_changes_nothing(tmp_path: Path) -> None:
    doctor(tmp_path)
    assert not (tmp_path / "var").exists()


def test_a_named_server_that_does_not_answer_fails(tmp_path: Path) -> None:
    url = f"postgresql://keepstate@/keepstate?host={tmp_path}"
    assert doctor(tmp_path, DATABASE_URL=url, REDIS_URL=f"unix://{tmp_path}/none.sock").returncode == 1
    found = findings(tmp_path)
    assert found["DATABASE_URL"]["verdict"] == found["REDIS_URL"]["verdict"] == "FAIL"


def test_a_check_that_breaks_is_unknown() -> None:
    def broken() -> Iterator[Finding]:
        yield ok("first", "fine")
        raise OSError("the disk is on fire")

    assert [finding.verdict for finding in examine("burning", broken)] == [Verdict.UNKNOWN]


@pytest.mark.parametrize(("finding", "code"), [(ok, 0), (warn, 0), (unknown, 0), (failed, 1)])
def test_only_a_failure_ends_with_one(monkeypatch: pytest.MonkeyPatch, finding, code: int) -> None:
    monkeypatch.setattr(
        report, "CHECKS", {"one": lambda: [finding("one", "as found", "do this")] if finding is not ok else [ok("one", "as found")]}
    )
    assert report.main([]) == code


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://u:p@db.example:6000/x", ("db.example", 6000)),
        ("postgresql://u@/x?host=/run/pg", "/run/pg/.s.PGSQL.5432"),
        ("unix:///run/redis.sock?db=1", "/run/redis.sock"),
        ("redis://cache.example/0", ("cache.example", 1234)),
    ],
)
def test_addresses_are_read_from_urls(url: str, address: object) -> None:
    assert address_of(url, 1234 if url.startswith("redis") else 5432) == address
