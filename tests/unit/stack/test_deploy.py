"""What `deploy/` gives an operator: units and a compose file that their own tools accept, with settings that exist."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import django
import pytest
import yaml

from keepstate_site.settings import queue
from keepstate_site.stack import prepare
from keepstate_site.stack.paths import PROJECT
from workers.host.claim import REFUSED

DEPLOY = PROJECT / "deploy"
UNITS = sorted(path for path in (DEPLOY / "systemd").iterdir() if path.suffix in (".service", ".target", ".socket"))
OF_A_HOST = [unit for unit in UNITS if unit.name.endswith("@.service")]
COMPOSE = DEPLOY / "compose" / "compose.yaml"
#: With any of these systemd gives a service a view of the mounts of its own (systemd.exec(5)).
OWN_MOUNTS = (
    r"Private(Tmp|Devices|Mounts|Users|IPC|PIDs)|Protect(System|Home|Kernel\w+|ControlGroups|Hostname|Proc)|TemporaryFileSystem|ProcSubset|"
    r"(ReadWrite|ReadOnly|Inaccessible|Exec|NoExec|Bind|BindReadOnly)Paths|Mount\w+|Root\w+|\w*Directory|(Load|Set)Credential\w*|DynamicUser"
)
SETTING = r"\b(?:KEEPSTATE|AWS)_[A-Z0-9_]+\b|\b(?:DATABASE|REDIS|CHECKPOINT_STORE)_URL\b"


def settings_of(unit: Path) -> list[tuple[str, str]]:
    """Each `Name=value` line; systemd's own parser is asked too, where it is installed."""
    lines = [line for line in unit.read_text().splitlines() if line and line[0] not in "#["]
    assert all("=" in line for line in lines), unit
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def known_settings() -> set[str]:
    sources = [*(PROJECT / "keepstate_site" / "settings").glob("*.py")]
    return {name for source in sources for name in re.findall(SETTING, source.read_text())}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed, so the units were not given to it")
def test_systemd_accepts_every_unit(tmp_path: Path) -> None:
    """With a program and a directory that are here in place of those that an installation has."""
    for unit in UNITS:
        text = unit.read_text().replace("/var/lib/keepstate/venv/bin/python", sys.executable)
        name = unit.name.replace("@.", "@h-1.")
        (tmp_path / name).write_text(text.replace("WorkingDirectory=/opt/keepstate", f"WorkingDirectory={PROJECT}").replace("%i", "h-1"))
    argv = ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))]
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    said = [line for line in answer.stderr.splitlines() if "keepstate" in line]
    assert (answer.returncode, said) == (0, [])


def test_units_of_a_host_see_each_others_mounts_and_let_machines_live() -> None:
    assert len(OF_A_HOST) == 3
    for unit in OF_A_HOST:
        found = dict(settings_of(unit))
        assert [name for name in found if re.fullmatch(OWN_MOUNTS, name) and name != "WorkingDirectory"] == []
        assert (found["KillMode"], found["OOMPolicy"]) == ("process", "continue")


def test_a_unit_that_is_not_started_again_leaves_the_reason_to_its_main_process() -> None:
    """systemd counts the exit code of nothing else, and would try for ever."""
    final = [unit for unit in OF_A_HOST if "RestartPreventExitStatus" in dict(settings_of(unit))]
    assert len(final) == 2
    for unit in final:
        found = dict(settings_of(unit))
        assert found["RestartPreventExitStatus"] == str(REFUSED)
        assert found["ExecStartPre"].endswith(" check_fleet --shared")


def test_what_a_unit_prepares_with_finds_its_settings_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    monkeypatch.setattr(sys, "argv", ["prepare"])
    found: list[str | None] = []

    def set_up() -> None:
        found.append(os.environ.get("DJANGO_SETTINGS_MODULE"))
        raise InterruptedError

    monkeypatch.setattr(django, "setup", set_up)
    with pytest.raises(InterruptedError):
        prepare.main()
    assert found == ["keepstate_site.settings"]


def test_a_worker_is_given_longer_to_stop_than_it_takes() -> None:
    takes: int = queue.settings("redis://127.0.0.1/0", 5)["CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT"]
    workers = [unit for unit in UNITS if re.search(r"run_worker", unit.read_text())]
    assert len(workers) == 3
    for unit in workers:
        assert int(dict(settings_of(unit))["TimeoutStopSec"]) > takes
    assert int(compose()["services"]["control"]["stop_grace_period"].removesuffix("s")) > takes


def test_every_setting_that_they_name_exists() -> None:
    texts = [path for path in DEPLOY.rglob("*") if path.is_file()]
    named = {(path.name, name) for path in texts for name in re.findall(SETTING, path.read_text())}
    assert len(named) > 20
    assert {(file, name) for file, name in named if name not in known_settings()} == set()


def test_the_compose_file_is_one_by_its_published_schema() -> None:
    argv = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_what_the_compose_file_asks_for_is_in_its_example_and_is_built_from_what_is_here() -> None:
    asked = set(re.findall(r"\$\{([A-Z0-9_]+)", COMPOSE.read_text()))
    offered = {line.partition("=")[0] for line in (DEPLOY / "compose" / "example.env").read_text().splitlines() if line[:1] != "#"}
    assert asked == offered - {""}
    build = compose()["services"]["web"]["build"]
    assert (COMPOSE.parent / build["context"]).resolve() == PROJECT
    copied = re.findall(r"^COPY (\S+) ", (PROJECT / build["dockerfile"]).read_text(), re.MULTILINE)
    assert copied
    assert [path for path in copied if not (PROJECT / path).exists()] == []


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text()))
