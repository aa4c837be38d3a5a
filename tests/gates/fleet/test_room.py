"""The kit itself, with the fake hypervisor: what it does to a host and to the servers is real, and nothing of it is left."""

import os
from pathlib import Path

import psycopg
import pytest
import redis
from botocore.exceptions import BotoCoreError

from checkpoints_app.store.backends.s3.place import make_client
from tests.gates.fleet import processes
from tests.gates.fleet.host import HostProcess
from tests.gates.fleet.mounts import below
from tests.gates.fleet.room import FleetRoom, fleet
from tests.gates.fleet.servers import Postgres
from tests.gates.room import Subject
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
FAKE = {"KEEPSTATE_MACHINE_DRIVER": "fake"}


def test_a_fleet_can_be_broken_and_mended_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    with fleet(tmp_path, ("h-1", "h-2"), environment=FAKE, s3=True) as room:
        subject = Subject(room, room.client.do("POST", "/api/sessions", {"Image": "tiny"})["id"])
        subject.save()
        (owner,) = [host for host in room.hosts.values() if host.machine_pids()]
        (other,) = [host for host in room.hosts.values() if host is not owner]
        a_host_can_be_paused_and_lost_whole(room, owner, other)
        servers_can_be_taken_away_and_brought_back(room)
        parts_of_the_front_can_be_killed_and_paused(room)
        owner.stop()
        assert other.is_up
    assert processes.of_stack(room.root) == []
    assert below(tmp_path) == []


def a_host_can_be_paused_and_lost_whole(room: FleetRoom, owner: HostProcess, other: HostProcess) -> None:
    everything = owner.pids()
    assert set(owner.machine_pids()) < set(everything)
    assert not set(everything) & set(other.pids())
    owner.pause()
    assert all(processes.stands(pid) for pid in everything)
    owner.resume()
    for kill, pids in ((owner.kill_gateway, owner.gateway_pids), (lambda: owner.kill_workers("vm"), lambda: owner.worker_pids("vm"))):
        before = set(pids())
        assert kill() >= len(before) > 0
        until(lambda pids=pids, before=before: set(pids()) - before, 90, "the supervisor starts it again")  # type: ignore[misc]
    assert owner.kill() > 0
    assert (owner.pids(), owner.is_up, other.is_up) == ([], False, True)
    owner.start()
    assert owner.worker_pids("io")


def servers_can_be_taken_away_and_brought_back(room: FleetRoom) -> None:
    room.redis.flush()
    room.redis.stop()
    with pytest.raises(redis.ConnectionError):
        room.redis.flush()
    room.redis.start()
    assert room.postgres.cut_connections() > 0
    sessions = "SELECT count(*) FROM sessions_app_session"
    before = room.postgres.rows(sessions)
    room.postgres.stop()
    with pytest.raises(psycopg.OperationalError):
        room.postgres.rows(sessions)
    room.postgres.start()
    a_crash_takes_nothing_that_was_committed(room.postgres)
    assert room.postgres.rows(sessions) == before
    assert room.s3 is not None
    client = make_client(room.s3.place())
    kept = client.list_objects_v2(Bucket=room.s3.place().bucket)["KeyCount"]
    room.s3.stop()
    with pytest.raises(BotoCoreError):
        client.list_buckets()
    room.s3.start()
    assert client.list_objects_v2(Bucket=room.s3.place().bucket)["KeyCount"] == kept > 0


def a_crash_takes_nothing_that_was_committed(postgres: Postgres) -> None:
    """Or a gate would take for a fault of ours what its own server has forgotten."""
    with postgres.connect() as client:
        client.execute("CREATE TABLE kept (n integer)")
        for n in range(100):
            client.execute("INSERT INTO kept VALUES (%s)", [n])
        postgres.kill()
    postgres.start()
    assert postgres.rows("SELECT count(*) FROM kept") == [(100,)]


def parts_of_the_front_can_be_killed_and_paused(room: FleetRoom) -> None:
    room.beat.pause()
    assert all(processes.stands(pid) for pid in room.beat.pids())
    room.beat.resume()
    with room.second_beat():
        until(lambda: len(room.beat.pids()) == 2, 30, "two beats run")
    for part in (room.web, room.control):
        before = set(part.pids())
        assert part.kill() >= len(before) > 0
        until(lambda part=part, before=before: set(part.pids()) - before, 90, "the supervisor starts it again")  # type: ignore[misc]
    assert os.getpid() not in processes.of_stack(room.root)
