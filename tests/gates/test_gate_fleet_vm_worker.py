"""Gate fleet: the vm worker of a host stands still, and nothing else of it. What was placed there begins on another host, nothing new is
placed there, its machine runs on and is not taken from it; with its worker's first word it takes work again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.gates.fleet import processes
from tests.gates.fleet.host import HostProcess
from tests.gates.fleet.loss import ANSWERS_SECONDS, begun, only, place
from tests.gates.fleet.room import FleetRoom, fleet
from tests.gates.room import Subject
from tests.support.waiting import until

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(900)]

#: Several sweeps after the worker has become silent; under the sabotage nothing is waited for that comes.
SABOTAGED_SECONDS = 30


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetRoom]:
    root = tmp_path_factory.mktemp("vm-worker")
    with fleet(root, ("h-1", "h-2"), switch=root / "switch") as room:
        yield room


@contextmanager
def vm_worker_standing_still(host: HostProcess) -> Iterator[None]:
    stopped = host.worker_pids("vm")
    assert stopped, "the host has a vm worker"
    processes.stop_all(lambda: host.worker_pids("vm"))
    try:
        yield
    finally:
        processes.continue_all(lambda: host.worker_pids("vm"))


def asked_for(room: FleetRoom) -> Subject:
    """A session, without waiting for it."""
    _, answer = room.client.call("POST", "/api/sessions", {"Image": "tiny"})
    return Subject(room, str(room.operation(answer["operation_id"])["session_id"]))


def placed_on(room: FleetRoom, subject: Subject) -> str:
    ((host_id,),) = room.postgres.rows("SELECT host_id FROM sessions_app_operation WHERE session_id = %s", subject.id)
    return str(host_id)


def prove(room: FleetRoom, seconds: int) -> dict[str, Any]:
    here, other = room.hosts["h-1"], room.hosts["h-2"]
    stays = begun(room, here, room.start)
    (count, nonce), left = stays.status(), place(stays)
    with vm_worker_standing_still(here):
        only(room, here)
        before = [asked_for(room) for _ in range(2)]
        assert [placed_on(room, one) for one in before] == [here.id, here.id], "nobody knows yet that it stands still"
        only(room, None)
        until(lambda: all(one.state() == "running" for one in before), seconds, "what was placed there has begun")
        after = [asked_for(room) for _ in range(2)]
        assert [placed_on(room, one) for one in after] == [other.id, other.id], "nothing new is placed there"
        until(lambda: all(one.state() == "running" for one in after), seconds, "the others run")
        assert {place(one).host_id for one in before + after} == {other.id}
        now = stays.status()
        assert (now[1], now[0] > count, place(stays)) == (nonce, True, left), "its machine runs on, and is its own"
    back = begun(room, here, room.start)
    stays.save()
    assert len(stays.checkpoints()) == 1, "what its machine is asked is done again"
    found = {"begun_elsewhere": len(before), "placed_elsewhere": len(after), "count_before": count, "count_after": now[0]}
    for one in (stays, back, *before, *after):
        one.delete()
    return found


@pytest.mark.gate("fleet", "A host whose vm worker alone stands still is given nothing new, and what it had not begun begins elsewhere")
def test_a_host_whose_vm_worker_stands_still_is_given_nothing_new_and_keeps_its_machine(two: FleetRoom, evidence: dict[str, Any]) -> None:
    evidence |= prove(two, ANSWERS_SECONDS)


def test_the_gate_fails_where_any_worker_of_a_host_speaks_for_it(two: FleetRoom) -> None:
    with two.without("a_silent_vm_worker_is_not_missed"), pytest.raises(AssertionError, match="what was placed there has begun"):
        prove(two, SABOTAGED_SECONDS)
    only(two, None)
