"""`./keepstate up --hosts 3` with real machines: work spreads over the hosts, and goes from one to another by save, stop and resume."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from keepstate_site.client import Client
from keepstate_site.stack import services
from keepstate_site.stack.client import running
from tests.gates.fleet import processes
from tests.gates.gateway.beside import provider
from tests.gates.room import Room, Subject, networks_removed, stack_environment

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(600)]
HOSTS = ("h-1", "h-2", "h-3")


@pytest.mark.gate(
    "fleet hosts", "Several hosts on one machine share its work, and a session goes on in another host with its memory intact"
)
def test_three_sessions_are_on_three_hosts_and_one_moves(tmp_path: Path, evidence: dict[str, Any]) -> None:
    with (
        networks_removed(tmp_path),
        provider() as beside,
        running(tmp_path / "var", env=stack_environment(tmp_path, None), hosts=3) as stack,
    ):
        client = Client(stack.url, stack.token, poll_share=0.25)
        room = Room(client, stack.root, tmp_path / "crash", tmp_path / "bin", beside)
        try:
            subjects = [room.start() for _ in HOSTS]
            where = {subject.id: host_of(room, subject) for subject in subjects}
            assert sorted(where.values()) == sorted(HOSTS)
            evidence |= {"hosts": sorted(where.values())}

            moved = subjects[0]
            count, nonce = moved.status()
            moved.save(stop=True)
            drained(room, where[moved.id])
            moved.resume()
            now = moved.status()
            evidence |= {"from": where[moved.id], "to": host_of(room, moved), "count_at_save": count, "count_after": now[0]}
            assert evidence["to"] != evidence["from"]
            assert now[1] == nonce
            assert now[0] >= count
        finally:
            room.kill_machines()


def host_of(room: Room, subject: Subject) -> str:
    (pid,) = subject.pids()
    (host,) = [host for host in HOSTS if pid in processes.machines_of(room.root, host)]
    return host


def drained(room: Room, host: str) -> None:
    """It takes no new work, as an operator may decide at any time."""
    home = services.find(room.root).home
    assert home
    with psycopg.connect(home.database_url, autocommit=True) as connection:
        assert connection.execute("UPDATE workers_host SET draining = true WHERE id = %s", [host]).rowcount == 1
