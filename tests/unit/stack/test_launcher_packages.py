"""Which packages the launcher installs, how it asks for them, and what it says when it cannot."""

from pathlib import Path

import pytest

from tests.unit.stack import launcher

SERVICES = ("postgresql", "redis-server")


def test_only_what_is_missing_is_installed_and_its_reason_is_said(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path)
    machine.install("postgresql")
    answer = machine.packages("ensure_packages services")
    assert answer.returncode == 0, answer.stderr
    installs = [call for call in machine.calls if " install " in call]
    assert len(installs) == 1
    assert installs[0].endswith("install --yes --no-install-recommends redis-server")
    assert "redis-server: the private message broker" in answer.stdout


def test_nothing_is_called_but_the_query_when_all_is_there(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path)
    machine.install(*SERVICES)
    answer = machine.packages("ensure_packages services")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == ""
    assert [call.split()[0] for call in machine.calls] == ["dpkg-query"]


def test_package_lists_are_fetched_only_where_they_do_not_know_a_package(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path)
    machine.packages("ensure_packages services")
    assert not any(call.endswith(" update") for call in machine.calls)
    machine.program("apt-cache", 'echo "  Candidate: (none)"')
    machine.packages("ensure_packages services")
    assert sum(call.endswith(" update") for call in machine.calls) == 1


def test_a_failed_install_is_tried_once_more_with_new_lists_and_then_explained(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path)
    machine.program("apt-get", 'case "$*" in *install*) echo "E: Unable to fetch some archives"; exit 100;; esac')
    answer = machine.packages("ensure_packages services")
    assert answer.returncode == 1
    assert sum(" install " in call for call in machine.calls) == 2
    assert "E: Unable to fetch some archives" in answer.stderr
    assert "apt-get install postgresql redis-server" in answer.stderr


def test_a_user_without_sudo_is_told_what_root_must_do(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path)
    (machine.bin / "id").unlink()
    machine.program("id", "echo 1000")
    answer = machine.packages("ensure_packages services")
    assert answer.returncode == 1
    assert "Run `apt-get install postgresql redis-server` as root" in answer.stderr
    assert not any(call.startswith("apt-get") for call in machine.calls)


def test_a_user_with_sudo_installs_through_it_and_is_never_asked_without_a_terminal(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path)
    (machine.bin / "id").unlink()
    machine.program("id", "echo 1000")
    machine.program("sudo", 'shift; exec "$@"')
    answer = machine.packages("ensure_packages services")
    assert answer.returncode == 0, answer.stderr
    sudo = [call for call in machine.calls if call.startswith("sudo")]
    assert sudo[0] == "sudo -n true"
    assert all(call.startswith("sudo -n ") for call in sudo)
    assert "DEBIAN_FRONTEND=noninteractive" in sudo[-1]


def test_a_system_without_apt_is_told_the_list_and_nothing_is_changed(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path)
    (machine.bin / "apt-get").unlink()
    answer = machine.packages("ensure_packages services")
    assert answer.returncode == 1
    assert "redis-server: the private message broker" in answer.stdout
    assert "KEEPSTATE_SKIP_PACKAGES=1" in answer.stderr
    assert machine.packages("ensure_packages services", KEEPSTATE_SKIP_PACKAGES="1").returncode == 0


def test_what_a_host_may_do_without_is_tried_and_its_absence_stops_nothing(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path)
    machine.program("apt-get", 'case "$*" in *install*) echo "E: Unable to locate package"; exit 100;; esac')
    answer = machine.packages('offer_packages arm64 "arm64 machines"; echo and on')
    assert answer.returncode == 0
    assert "E: Unable to locate package" in answer.stderr
    assert "going on without arm64 machines" in answer.stdout
    assert answer.stdout.endswith("and on\n")


@pytest.mark.parametrize(("distribution", "version"), [("debian", "12"), ("debian", "13"), ("ubuntu", "24.04")])
def test_every_group_has_packages_on_the_known_distributions(tmp_path: Path, distribution: str, version: str) -> None:
    machine = launcher.make(tmp_path, distribution=distribution, version=version)
    for group in ("python", "services", "machines", "arm64", "images", "browser", "peers"):
        answer = machine.packages(f"wanted {group}")
        rows = [line.split("|") for line in answer.stdout.splitlines()]
        assert rows, group
        assert all(name and reason for name, reason in rows)


def test_an_unknown_distribution_is_named_and_tried(tmp_path: Path) -> None:
    machine = launcher.make(tmp_path, distribution="mint", version="22")
    answer = machine.packages("ensure_packages services")
    assert answer.returncode == 0, answer.stderr
    assert "mint:22 was never tried" in answer.stdout
