"""Gate faults: the database, the store, the web process, workers and hypervisors fail under load. Machines run on, who asks again with the
same key gets what was asked for, once, every request has an end, and all of it is well again by itself.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.gates.fleet import processes
from tests.gates.fleet.room import FleetRoom, fleet
from tests.gates.gateway import agents
from tests.gates.gateway.agents import Agent
from tests.gates.room import Subject
from tests.support import s3_faults
from tests.support.asking import asking, insist
from tests.support.s3_proxy import FaultProxy, fault_proxy
from tests.support.seaweed import BUCKET, S3Server, seaweed
from tests.support.waiting import until, until_gone

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(900)]

#: How long what lasts is away.
AWAY_SECONDS = float(os.environ.get("KEEPSTATE_OUTAGE", "60"))
#: No request takes longer, whatever fails: a statement of the web process is given up after 20 s, a connection after 10.
ANSWER_SECONDS = 45.0
WELL_SECONDS = 60.0
END_SECONDS = 300.0
_METHODS = ("GET", "PUT", "HEAD", "DELETE")
#: What a request may be told while something is away: to ask again.
AGAIN = {"503 ks_unavailable", "no answer"}


@dataclass(frozen=True)
class Store:
    server: S3Server
    proxy: FaultProxy


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with seaweed(tmp_path_factory.mktemp("s3")) as server, fault_proxy(server) as proxy:
        yield Store(server, proxy)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[FleetRoom]:
    root, known = tmp_path_factory.mktemp("faults"), store.server.credentials
    there = {
        "CHECKPOINT_STORE_URL": f"s3://{BUCKET}?endpoint={store.proxy.endpoint}&addressing=path",
        "AWS_ACCESS_KEY_ID": known.access_key,
        "AWS_SECRET_ACCESS_KEY": known.secret_key,
    }
    with fleet(root, ("h-1",), switch=root / "switch", environment=there) as opened:
        yield opened


@pytest.fixture(scope="module")
def subjects(room: FleetRoom) -> tuple[Subject, Subject]:
    """One is saved, in the other commands are run."""
    return room.start(), room.start()


Fault = Callable[[FleetRoom, Store], AbstractContextManager[None]]


def at_once(act: Callable[[FleetRoom, Store], object], name: str) -> Fault:
    @contextmanager
    def fault(room: FleetRoom, store: Store) -> Iterator[None]:
        act(room, store)
        yield

    fault.__name__ = name
    return fault


def lasting(begin: Callable[[FleetRoom, Store], object], end: Callable[[FleetRoom, Store], object], name: str) -> Fault:
    @contextmanager
    def fault(room: FleetRoom, store: Store) -> Iterator[None]:
        try:
            begin(room, store)
            time.sleep(AWAY_SECONDS)  # the length of the outage is the fault itself
            yield
        finally:
            end(room, store)

    fault.__name__ = name
    return fault


def all_of_postgres(room: FleetRoom) -> list[int]:
    assert room.postgres.process is not None
    return processes.descendants(room.postgres.process.pid)


def stand_still(room: FleetRoom, _: Store) -> None:
    processes.stop_all(lambda: all_of_postgres(room))


def go_on(room: FleetRoom, _: Store) -> None:
    processes.send(all_of_postgres(room), signal.SIGCONT)


def refuse(_: FleetRoom, store: Store) -> None:
    for method in _METHODS:
        store.proxy.plan(s3_faults.resets, method)


def crash(room: FleetRoom, _: Store) -> None:
    room.postgres.kill()
    room.postgres.start()


DATABASE = [
    at_once(lambda room, _: room.postgres.cut_connections(), "database_connections_cut"),
    at_once(lambda room, _: room.postgres.restart(), "database_restarted"),
    at_once(crash, "database_crashed"),
    lasting(lambda room, _: room.postgres.stop(), lambda room, _: room.postgres.start(), "database_gone"),
    lasting(stand_still, go_on, "database_paused"),
]
STORE = [
    lasting(refuse, lambda _, store: store.proxy.heal(), "store_gone"),
    lasting(
        lambda _, store: store.server.process.send_signal(signal.SIGSTOP),
        lambda _, store: store.server.process.send_signal(signal.SIGCONT),
        "store_paused",
    ),
    lasting(lambda _, store: store.proxy.receive_slowly(pieces=4, pause=0.5), lambda _, store: store.proxy.heal(), "store_slow"),
]
PROCESSES = [
    at_once(lambda room, _: room.web.kill(), "web_killed"),
    at_once(lambda room, _: room.control.kill(), "control_worker_killed"),
    at_once(lambda room, _: room.hosts["h-1"].kill_workers("vm"), "vm_worker_killed"),
    at_once(lambda room, _: room.hosts["h-1"].kill_workers("io"), "io_worker_killed"),
    at_once(lambda room, _: room.hosts["h-1"].kill_gateway(), "gateway_killed"),
]


def acts_of(room: FleetRoom, subjects: tuple[Subject, Subject]) -> Mapping[str, Callable[[], object]]:
    saved, used = subjects
    return {"read": saved.state, "exec": lambda: used.exec("true"), "save": lambda: saved.save(stop=False)}


def prove(room: FleetRoom, store: Store, subjects: tuple[Subject, Subject], fault: Fault) -> dict[str, Any]:
    saved = subjects[0]
    pids, (count, nonce) = [one.pids() for one in subjects], saved.status()
    assert all(len(each) == 1 for each in pids), "there are machines to judge"
    with asking(acts_of(room, subjects)) as askers:
        until(lambda: all(one.count_since(0.0) for one in askers.values()), WELL_SECONDS, "each has had an answer before")
        until(lambda: saved.state() == "checkpointing", WELL_SECONDS, "a save is under way when the fault comes")
        began = time.monotonic()
        with fault(room, store):
            path = f"/api/sessions/{saved.id}/checkpoint"
        mended = time.monotonic()
        until(lambda: all(one.count_since(mended) for one in askers.values()), WELL_SECONDS, "each kind of request is answered again")
    told = {name: one.told(began, mended) for name, one in askers.items()}
    save = insist(room.client, "POST", path, {"Stop": False}, END_SECONDS)
    assert save["state"] == "succeeded", save["error"]
    assert [one.pids() for one in subjects] == pids, "the same machines run"
    after = saved.status()
    assert (after[1], after[0] > count) == (nonce, True), "and the program in it went on"
    for name, one in told.items():
        assert one["slowest_seconds"] < ANSWER_SECONDS + (0 if name == "read" else END_SECONDS), f"a {name} took {one['slowest_seconds']} s"
    return {"fault": fault.__name__, "away_seconds": round(mended - began, 1), **told}


def judged(told: dict[str, Any]) -> dict[str, Any]:
    """No save or command failed of itself: what was refused says to ask again, or that the one before is not over."""
    allowed = AGAIN | {"409 ks_conflict", "409 ks_session_not_running"}
    for name in ("read", "exec", "save"):
        assert not set(told[name]["refusals"]) - (AGAIN if name == "read" else allowed), told[name]
    return told


@pytest.mark.gate(
    "faults", "PostgreSQL cut, restarted, crashed, gone or paused under load: no save fails, requests end and are answered again"
)
@pytest.mark.parametrize("fault", DATABASE, ids=[one.__name__ for one in DATABASE])
def test_the_database_fails(
    room: FleetRoom, store: Store, subjects: tuple[Subject, Subject], fault: Fault, evidence: dict[str, Any]
) -> None:
    evidence |= judged(prove(room, store, subjects, fault))


@pytest.mark.gate("faults", "S3 gone, paused or slow under load: machines run on, and a save that meets it succeeds or says to ask again")
@pytest.mark.parametrize("fault", STORE, ids=[one.__name__ for one in STORE])
def test_the_store_fails(room: FleetRoom, store: Store, subjects: tuple[Subject, Subject], fault: Fault, evidence: dict[str, Any]) -> None:
    told = judged(prove(room, store, subjects, fault))
    assert told["exec"]["answers_during"] > 0, "commands need no store"
    evidence |= told


@pytest.mark.gate("faults", "Each process of a service killed under load: its supervisor starts it again, and what was asked for is done")
@pytest.mark.parametrize("fault", PROCESSES, ids=[one.__name__ for one in PROCESSES])
def test_a_process_dies(room: FleetRoom, store: Store, subjects: tuple[Subject, Subject], fault: Fault, evidence: dict[str, Any]) -> None:
    evidence |= prove(room, store, subjects, fault)


@pytest.mark.gate("faults", "A hypervisor killed: its session says so within seconds, and goes on from its last checkpoint")
def test_a_hypervisor_dies(room: FleetRoom, subjects: tuple[Subject, Subject], evidence: dict[str, Any]) -> None:
    subject, _ = subjects
    subject.save()
    _, nonce = subject.status()
    subject.kill()
    killed = time.monotonic()
    until(lambda: subject.state() == "failed", WELL_SECONDS, "its session says so")
    noticed = time.monotonic()
    subject.resume()
    assert subject.status()[1] == nonce
    evidence |= {"noticed_after_seconds": round(noticed - killed, 2), "answered_after_seconds": round(time.monotonic() - noticed, 2)}


@contextmanager
def without_workers(room: FleetRoom) -> Iterator[None]:
    """Its supervisor stands still and starts none; the gateway and the machines run."""
    host = room.hosts["h-1"]
    assert host.process is not None
    host.process.send_signal(signal.SIGSTOP)
    try:
        for kind in ("vm", "io"):
            for pid in host.worker_pids(kind):
                os.kill(pid, signal.SIGKILL)
                until_gone(pid, 10)
        yield
    finally:
        host.process.send_signal(signal.SIGCONT)


@pytest.mark.gate(
    "faults",
    "All workers of a host gone for longer than a lost host is waited for, its gateway there: nothing is taken from it, model calls work",
)
def test_all_workers_of_a_host_are_gone(room: FleetRoom, evidence: dict[str, Any]) -> None:
    caller = agents.machine(room)
    pids, agent = caller.pids(), Agent(caller, "while")
    caller.exec("cd /root && rm -f while.*; (sleep 12; python3 agent.py while 100 > while.log 2>&1) </dev/null >/dev/null 2>&1 &")
    before = room.provider.bill["calls"]
    with without_workers(room):
        gone = time.monotonic()
        until(lambda: room.provider.bill["calls"] > before, 60, "its program's call reaches the provider")
        until(lambda: time.monotonic() - gone > 20, 30, "four times the seconds after which a host is lost")
        assert caller.state() == "running"
        assert caller.pids() == pids
    back = time.monotonic()
    save = insist(room.client, "POST", f"/api/sessions/{caller.id}/checkpoint", {"Stop": False}, END_SECONDS)
    evidence |= {"gone_seconds": round(back - gone, 1), "saved_after_seconds": round(time.monotonic() - back, 1)}
    assert save["state"] == "succeeded", save["error"]
    assert agent.has_ended()
    assert caller.pids() == pids
    caller.delete()


def cut_again_and_again(room: FleetRoom, store: Store, subjects: tuple[Subject, Subject]) -> None:
    """Each comes while a save is under way; one of them at the latest is met before its last commit."""
    for _ in range(5):
        judged(prove(room, store, subjects, DATABASE[0]))


def test_the_gate_fails_when_an_attempt_ends_with_its_connection(room: FleetRoom, store: Store, subjects: tuple[Subject, Subject]) -> None:
    with room.without("attempts_end_with_the_connection"), pytest.raises(AssertionError, match="refusals"):
        cut_again_and_again(room, store, subjects)


def test_the_gate_fails_when_the_store_is_asked_once(room: FleetRoom, store: Store, subjects: tuple[Subject, Subject]) -> None:
    with room.without("the_store_is_asked_once"), pytest.raises(AssertionError, match="refusals"):
        judged(prove(room, store, subjects, STORE[0]))
