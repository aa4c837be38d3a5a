"""Gate: `./keepstate up --hosts 3` with real machines: work spreads over the hosts, and goes from one to another by save and resume."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from keepstate_site.client import Client
from keepstate_site.stack.client import running
from keepstate_site.stack.paths import PROJECT
from tests.gates.fleet import processes
from tests.gates.fleet.room import store_on
from tests.gates.gateway.beside import provider
from tests.gates.room import Room, Subject, networks_removed, stack_environment
from tests.support.seaweed import S3Server

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(900)]
HOSTS = ("h-1", "h-2", "h-3")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[Room]:
    directory = tmp_path_factory.mktemp("three")
    switch = directory / "switch"
    env = stack_environment(directory, switch) | store_on(s3_server)
    with networks_removed(directory), provider() as beside, running(directory / "var", env=env, hosts=3) as stack:
        client = Client(stack.url, stack.token, poll_share=0.25)
        room = Room(client, stack.root, directory / "crash", directory / "bin", beside, switch)
        try:
            yield room
        finally:
            room.kill_machines()


@pytest.mark.gate(
    "fleet hosts", "Several hosts on one machine share its work, and a session goes from one to another with its memory intact"
)
def test_three_sessions_are_on_three_hosts_and_one_moves(three: Room, s3_server: S3Server, evidence: dict[str, Any]) -> None:
    subjects = [three.start() for _ in HOSTS]
    where = {subject.id: host_of(three, subject) for subject in subjects}
    evidence["hosts"] = sorted(where.values())
    assert sorted(where.values()) == sorted(HOSTS)
    evidence |= prove_a_move(three, s3_server, subjects[0])


def test_the_gate_notices_a_session_that_is_started_anew_where_it_goes(three: Room, s3_server: S3Server) -> None:
    with three.without("resume_boots_afresh"), pytest.raises(AssertionError, match="is another program"):
        prove_a_move(three, s3_server, three.start())


def prove_a_move(room: Room, store: S3Server, subject: Subject) -> dict[str, Any]:
    left = host_of(room, subject)
    count, nonce = subject.status()
    told = move(room, store, subject)
    assert (told["from"], told["to"]) == (left, host_of(room, subject))
    assert left != told["to"]
    assert told["fetched_bytes"] > 0
    count_after, nonce_after = subject.status()
    assert nonce_after == nonce, "what runs there is another program"
    assert count_after >= count
    return {"moved": told, "count_before": count, "count_after": count_after}


def host_of(room: Room, subject: Subject) -> str:
    (pid,) = subject.pids()
    (host,) = [host for host in HOSTS if pid in processes.machines_of(room.root, host)]
    return host


def move(room: Room, store: S3Server, subject: Subject) -> dict[str, Any]:
    """As an operator does it: what the command tells of the move."""
    argv = [sys.executable, "-m", "keepstate_site.stack", "host", "move", subject.id, "--wait", "300", "--json"]
    servers = {**dict.fromkeys(("DATABASE_URL", "REDIS_URL"), ""), **store_on(store)}
    environment = {**os.environ, **servers, "KEEPSTATE_VAR": str(room.root)}
    answer = subprocess.run(argv, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=360, check=False)
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)["moved"]
    return found
