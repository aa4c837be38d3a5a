"""Gate fleet drain: a host that drains and moves gives each session to another, with its memory, though a worker dies on the way.

Two hosts, real machines, the store on an S3 server, so that what a host fetches is known.
"""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from keepstate_site.stack.paths import PROJECT
from tests.gates.fleet.host import HostProcess
from tests.gates.fleet.room import FleetRoom, fleet
from tests.gates.room import Subject
from tests.support.waiting import until

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(900)]
DRAINED_SECONDS = 240
SABOTAGED_SECONDS = 40  # several sweeps and leases after the save has ended


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetRoom]:
    root = tmp_path_factory.mktemp("drain")
    with fleet(root, ("h-1", "h-2"), switch=root / "switch", s3=True) as room:
        yield room


def command(room: FleetRoom, *words: str) -> "subprocess.CompletedProcess[str]":
    """`./keepstate host ...` of this fleet."""
    env = {**room.environment, "KEEPSTATE_VAR": str(room.root)}
    return subprocess.run(
        [sys.executable, "manage.py", "host", *words], cwd=PROJECT, env=env, capture_output=True, text=True, check=False, timeout=600
    )


def host_of(room: FleetRoom, subject: Subject) -> HostProcess:
    (pid,) = subject.pids()
    (host,) = [host for host in room.hosts.values() if pid in host.machine_pids()]
    return host


def moved(room: FleetRoom, subject: Subject) -> dict[str, Any]:
    events = room.client.get(f"/api/v2/sessions/{subject.id}/events?limit=200")["items"]
    (told,) = [event["payload"] for event in events if event["payload"]["type"] == "session.moved"]
    return {name: told[name] for name in ("stored_bytes", "fetched_bytes", "seconds_away")}


def prove_drain(room: FleetRoom, evidence: dict[str, Any], *, seconds: int) -> None:
    """Of a host that has two sessions: both answer on the other one, and its history says what the way has cost."""
    subjects = [room.start()]
    here = host_of(room, subjects[0])
    (other,) = [host for host in room.hosts.values() if host is not here]
    assert command(room, "drain", other.id).returncode == 0
    subjects.append(room.start())
    assert host_of(room, subjects[1]) is here
    assert command(room, "undrain", other.id).returncode == 0

    before = [subject.status() for subject in subjects]
    room.crash_at("published")
    drained = command(room, "drain", here.id, "--move", "--wait", str(seconds))
    evidence |= {"drain": drained.stdout + drained.stderr, "a_worker_died_after_a_publication": room.crashed()}
    try:
        assert drained.returncode == 0, drained.stdout + drained.stderr
        assert room.crashed()
        for subject, (count, nonce) in zip(subjects, before, strict=True):
            until(lambda one=subject: one.state() == "running", seconds, "the session runs again")  # type: ignore[misc]
            now = subject.status()
            assert now[1] == nonce, "another program runs than the one that was saved"
            assert now[0] >= count
            assert host_of(room, subject) is other
        evidence |= {"hosts": [here.id, other.id], "moves": [moved(room, subject) for subject in subjects]}
        assert all(one["stored_bytes"] > 0 and one["fetched_bytes"] > 0 for one in evidence["moves"])
    finally:
        assert command(room, "undrain", here.id).returncode == 0
        for subject in subjects:
            subject.delete()


@pytest.mark.gate(
    "fleet drain",
    "A host that drains and moves gives its sessions to another host: each answers there with its memory intact, though a worker dies "
    "on the way, and its history tells the bytes saved and fetched and the seconds that it was away",
)
def test_a_drained_hosts_sessions_answer_elsewhere_with_their_memory(opened: FleetRoom, evidence: dict[str, Any]) -> None:
    prove_drain(opened, evidence, seconds=DRAINED_SECONDS)


def test_it_fails_where_the_save_is_not_followed_by_a_resume(opened: FleetRoom) -> None:
    with opened.without("moves_end_with_the_save"), pytest.raises(AssertionError):
        prove_drain(opened, {}, seconds=SABOTAGED_SECONDS)
