"""The kit itself, with the fake hypervisor: what it does to a host and to the servers is real, and nothing of it is left."""

from pathlib import Path

import pytest

from tests.gates.fleet import processes
from tests.gates.fleet.mounts import below
from tests.gates.fleet.room import FleetRoom, fleet
from tests.gates.room import Subject
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
FAKE = {"KEEPSTATE_MACHINE_DRIVER": "fake"}


def session(room: FleetRoom) -> Subject:
    return Subject(room, room.client.do("POST", "/api/sessions", {"Image": "tiny"})["id"])


def test_a_fleet_can_be_broken_and_mended_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    with fleet(tmp_path, ("h-1", "h-2"), environment=FAKE) as room:
        session(room)
        (owner,) = [host for host in room.hosts.values() if host.machine_pids()]
        (other,) = [host for host in room.hosts.values() if host is not owner]
        everything = owner.pids()
        assert set(owner.machine_pids()) < set(everything)
        assert not set(everything) & set(other.pids())

        owner.pause()
        assert {processes.stands(pid) for pid in everything} == {True}
        owner.resume()
        assert owner.kill_workers("vm") >= 2
        until(lambda: len(owner.worker_pids("vm")) >= 2, 60, "the supervisor starts the worker again")
        assert owner.kill() > 0
        assert owner.pids() == []
        assert other.is_up
        room.redis.flush()
        room.redis.restart()
        room.postgres.restart()
        owner.start()
        assert owner.is_up
    assert processes.of_stack(room.root) == []
    assert below(tmp_path) == []
