"""The embedded PostgreSQL and Redis: kept data, crashes, leftovers, a second stack."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from keepstate_site.stack.home import CLOSED_CHECKOUTS
from keepstate_site.stack.paths import PROJECT
from tests.integration.stack import stacks
from tests.support.waiting import until


def rows(root: Path) -> int:
    with stacks.database(root) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n serial)")
        connection.execute("INSERT INTO kept DEFAULT VALUES")
        found = connection.execute("SELECT count(*) FROM kept").fetchone()
    assert found
    return int(str(found[0]))


def test_the_database_is_safe_and_private(root: Path) -> None:
    with stacks.services_up(root), stacks.database(root) as connection:
        for name, wanted in {"data_checksums": "on", "fsync": "on", "full_page_writes": "on", "listen_addresses": ""}.items():
            assert connection.execute("SELECT current_setting(%s)", [name]).fetchone() == (wanted,)
        directory = Path(connection.info.host)
        assert directory.stat().st_mode & 0o777 == 0o700


def test_data_outlives_a_stop_on_either_signal(root: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with stacks.services_up(root) as stack:
            before = rows(root)
            assert stack.stop(number) == 0
    with stacks.services_up(root):
        assert rows(root) == before + 1


def test_a_killed_stack_leaves_no_process_and_the_next_start_finds_its_data(root: Path) -> None:
    with stacks.services_up(root) as stack:
        before = rows(root)
        assert len(stacks.children_of(stack.process.pid)) == 2
        stack.kill()
    with stacks.services_up(root):
        assert rows(root) == before + 1


def test_a_database_that_was_killed_with_its_stack_recovers(root: Path) -> None:
    """The machine loses power, as far as one can act it: supervisor and servers all get SIGKILL, and stale pid files stay."""
    with stacks.services_up(root) as stack:
        before = rows(root)
        children = stacks.children_of(stack.process.pid)
        for pid in (stack.process.pid, *children.values()):
            os.kill(pid, signal.SIGKILL)
        stack.kill()
    with stacks.services_up(root):
        assert rows(root) == before + 1


def test_a_pid_file_whose_number_is_another_process_now_does_not_stop_the_start(root: Path) -> None:
    with stacks.services_up(root):
        before = rows(root)
    stale = root / "services" / "postgres" / "data" / "postmaster.pid"
    stale.write_text(f"{os.getpid()}\n")
    with stacks.services_up(root):
        assert rows(root) == before + 1


@pytest.mark.parametrize("name", ["postgres", "redis"])
def test_a_server_that_dies_is_started_again(root: Path, name: str) -> None:
    with stacks.services_up(root) as stack:
        before = rows(root)
        [victim] = [pid for command, pid in stacks.children_of(stack.process.pid).items() if f"/{name}" in command.split()[0]]
        os.kill(victim, signal.SIGKILL)

        def another_runs() -> bool:
            now = [pid for command, pid in stacks.children_of(stack.process.pid).items() if f"/{name}" in command.split()[0]]
            return bool(now) and now != [victim]

        until(another_runs, 60, f"{name} runs again")
        until(lambda: _answers(root), 60, "the database answers")
        assert rows(root) == before + 1


def _answers(root: Path) -> bool:
    try:
        stacks.database(root).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_second_stack_on_the_same_root_is_refused_and_the_first_stays(root: Path) -> None:
    with stacks.services_up(root) as stack:
        argv = [sys.executable, "-m", "keepstate_site.stack", "up", "--services-only", "--var", str(root)]
        second = subprocess.run(argv, cwd=PROJECT, env=stacks.clean_environment(), capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 1
        assert f"another stack runs on {root} (process {stack.process.pid})" in second.stderr
        assert "Nothing was started" in second.stderr
        rows(root)


def test_a_command_uses_the_running_stack_and_without_one_starts_the_servers_for_itself(root: Path) -> None:
    argv = [
        sys.executable,
        "-m",
        "keepstate_site.stack",
        "run",
        "sh",
        "-c",
        'psql "$DATABASE_URL" -Atc "SELECT pg_postmaster_start_time()"',
    ]
    env = stacks.clean_environment(KEEPSTATE_VAR=str(root))

    def started_at() -> str:
        return subprocess.run(argv, cwd=PROJECT, env=env, capture_output=True, text=True, timeout=120, check=True).stdout

    assert started_at() != started_at()
    with stacks.services_up(root), stacks.database(root) as connection:
        assert started_at() == started_at()
        connection.execute("SELECT 1")


def test_a_command_ends_with_its_own_code(root: Path) -> None:
    argv = [sys.executable, "-m", "keepstate_site.stack", "run", "sh", "-c", "exit 7"]
    env = stacks.clean_environment(KEEPSTATE_VAR=str(root))
    assert subprocess.run(argv, cwd=PROJECT, env=env, timeout=120, check=False).returncode == 7


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives the services to another user")
def test_root_runs_the_database_below_a_directory_that_its_user_cannot_enter(closed_root: Path) -> None:
    closed_root.mkdir()
    with stacks.services_up(closed_root):
        assert rows(closed_root) == 1
    instance = (closed_root / "instance_id").read_text().strip()
    assert (CLOSED_CHECKOUTS / instance / "postgres" / "data" / "PG_VERSION").exists()
    moved = closed_root.rename(closed_root.with_name("moved"))
    with stacks.services_up(moved):
        assert rows(moved) == 2
    moved.rename(closed_root)


def test_with_real_servers_named_nothing_is_started(root: Path) -> None:
    with stacks.services_up(root, DATABASE_URL="postgresql://db.example/x", REDIS_URL="redis://cache.example/0") as stack:
        assert stacks.children_of(stack.process.pid) == {}
