"""Gate fleet: a host is lost with all that ran on it, and its sessions go on elsewhere; and a host that comes back from the dead publishes
nothing, calls no model and keeps no machine.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from keepstate_site.client import Refused
from tests.gates.fleet.loss import (
    ANSWERS_SECONDS,
    ENDED_SECONDS,
    NOTICED_SECONDS,
    begun,
    goes_on_elsewhere,
    is_lost,
    only,
    paused_in_mid_save,
    place,
    published,
)
from tests.gates.fleet.room import FleetRoom, fleet
from tests.gates.gateway.agents import DIRECTLY, bind_key
from tests.gates.room import Subject
from tests.support.waiting import until

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(1200)]

SESSIONS = 3
#: What a session that was noticed as lost may take to answer again, and what it may take to notice; the settings of the room are shorter.
NOTICE_BOUND, ANSWER_BOUND = 30, 60
#: Keeps calling, as fast as it is answered, and tells how often it was.
CALLS = r"""
import http.client, json, os
body = json.dumps({"model": "fake-model", "max_tokens": 9, "messages": [{"role": "user", "content": "Go on."}]})
headers = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": os.environ["ANTHROPIC_API_KEY"]}
done = 0
while True:
    try:
        connection = http.client.HTTPConnection("HOST", timeout=5)
        connection.request("POST", "/v1/messages", body, headers)
        answer = connection.getresponse()
        answer.read()
        done += answer.status == 200
        connection.close()
        open("/root/done", "w").write(str(done))
    except (OSError, http.client.HTTPException):
        pass
""".replace("HOST", DIRECTLY.removeprefix("http://"))


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetRoom]:
    """Two hosts, with the switch of the sabotages: one fleet for the gates and for them, since it takes long to start. A host may be
    silent a little longer than in other rooms, for a machine that emulates several is often late.
    """
    root = tmp_path_factory.mktemp("fleet")
    with fleet(root, ("h-1", "h-2"), switch=root / "switch", environment={"KEEPSTATE_HOST_LOST_SECONDS": "10"}) as room:
        yield room


@pytest.fixture
def mended(lossy: FleetRoom) -> Iterator[FleetRoom]:
    """Every host is up at the end, none is lost, and no session is left."""
    yield lossy
    for host in lossy.hosts.values():
        host.resume() if host.is_up else host.start()
    until(lambda: not any(is_lost(lossy, host) for host in lossy.hosts.values()), NOTICED_SECONDS, "every host is heard of again")
    only(lossy, None)
    for row in lossy.client.get("/api/v2/sessions?source=fleet&limit=100")["items"]:
        with suppress(Refused, TimeoutError):  # the fleet's end ends whatever is left
            Subject(lossy, row["id"]).delete()


def heap(subject: Subject) -> str:
    return str(subject.exec("sha256sum < /run/heap")["stdout"]).split()[0]


# -- loss


def prove_loss(room: FleetRoom, evidence: dict[str, Any]) -> None:
    lost = room.hosts["h-1"]
    subjects = [begun(room, lost, room.start) for _ in range(SESSIONS)]
    saved = []
    for subject in subjects:
        subject.exec("head -c 4000000 /dev/urandom > /run/heap")
        subject.save()
        saved.append((subject.status(), heap(subject), place(subject)))
        subject.exec("echo since > /run/since")
    killed = time.monotonic()
    evidence["processes_killed"] = lost.kill()
    until(lambda: is_lost(room, lost), NOTICED_SECONDS, "the loss is noticed")
    evidence["noticed_seconds"] = round(time.monotonic() - killed, 2)
    for subject, (_, _, left) in zip(subjects, saved, strict=True):
        goes_on_elsewhere(subject, left)
        assert subject.status()[0] > 0
    evidence["answering_seconds"] = round(time.monotonic() - killed - evidence["noticed_seconds"], 2)
    for subject, ((count, nonce), checksum, _) in zip(subjects, saved, strict=True):
        assert subject.status()[1] == nonce, "another machine"
        assert subject.status()[0] >= count - 50, "the count went on from the save"
        assert heap(subject) == checksum
        assert subject.exec("cat /run/since")["exit_code"] != 0, "what was done since the checkpoint is lost, and nothing else"
    evidence["sessions"] = len(subjects)
    assert evidence["noticed_seconds"] <= NOTICE_BOUND
    assert evidence["answering_seconds"] <= ANSWER_BOUND


@pytest.mark.gate("fleet", "A host that is killed whole is noticed within 30 s, and its sessions answer elsewhere within 60 s more")
def test_a_host_that_is_killed_whole_loses_no_session(mended: FleetRoom, evidence: dict[str, Any]) -> None:
    prove_loss(mended, evidence)


# -- fencing


def prove_fencing(room: FleetRoom, evidence: dict[str, Any]) -> None:
    owner = room.hosts["h-2"]
    subject = begun(room, owner, room.start)
    subject.save()
    nonce, left = subject.status()[1], place(subject)
    subject.exec("head -c 40000000 /dev/urandom > /run/heap")
    save = paused_in_mid_save(subject, owner)
    before = published(subject)
    machines = owner.machine_pids()
    assert machines, "its machine stands still and is there"
    goes_on_elsewhere(subject, left)
    assert room.operation(save)["error"]["code"] == "ks_host_lost"
    owner.resume()
    until(lambda: not is_lost(room, owner), NOTICED_SECONDS, "the host is heard of again")
    until(lambda: not owner.machine_pids(), ENDED_SECONDS, "the host has ended the machine of the epoch that was left")
    staging = room.root / "host" / owner.id / "staging"
    until(lambda: not list(staging.glob("*")), ENDED_SECONDS, "what the save held is gone")
    now = place(subject)
    assert published(subject) == before, "a host that came back from the dead has published"
    assert (now.state, now.host_id != owner.id, subject.status()[1]) == ("running", True, nonce)
    evidence |= {"machines_ended": len(machines), "published": len(before), "save": room.operation(save)["state"]}


@pytest.mark.gate("fleet", "A host that was paused in a save until it was lost publishes nothing and keeps no machine when it goes on")
def test_a_host_that_comes_back_publishes_nothing_and_keeps_no_machine(mended: FleetRoom, evidence: dict[str, Any]) -> None:
    prove_fencing(mended, evidence)


def prove_silence(room: FleetRoom, evidence: dict[str, Any]) -> None:
    """The session is not resumed, so that whatever is on the bill after the loss is the old machine's."""
    owner = room.hosts["h-2"]
    subject = begun(
        room, owner, lambda: Subject(room, room.client.do("POST", "/api/sessions", {"Image": "debian-python", "Memory": 256})["id"])
    )
    bind_key(subject, "sk-ant-gate-fleet-0042")
    path = f"/api/v2/sessions/{subject.id}/recovery-policy"
    _, read = room.client.call("GET", path)
    room.client.call("PUT", path, {"on_host_loss": False, "expected_revision": read["session_revision"]})
    subject.exec(f"cat > /root/calls.py <<'END'\n{CALLS}\nEND")
    subject.exec("(python3 /root/calls.py) </dev/null >/dev/null 2>&1 &")
    room.provider.forget()
    until(lambda: room.provider.bill["calls"] > 3, 90, "the machine calls a model")
    owner.pause()
    until(lambda: subject.state() == "failed", NOTICED_SECONDS, "its host is lost")
    before = room.provider.bill["calls"]
    machines = len(owner.machine_pids())
    assert machines, "its machine stands still and is there"
    owner.resume()
    until(lambda: not owner.machine_pids() or room.provider.bill["calls"] > before, ANSWERS_SECONDS, "its machine is ended")
    assert room.provider.bill["calls"] == before, "a machine of an epoch that was left has called a model"
    evidence |= {"calls_before": before, "calls_after": room.provider.bill["calls"], "machines_ended": machines}


@pytest.mark.gate(
    "fleet", "A machine whose host was paused until it was lost calls no model when it goes on: none is on the provider's bill"
)
def test_a_machine_that_comes_back_calls_no_model(mended: FleetRoom, evidence: dict[str, Any]) -> None:
    prove_silence(mended, evidence)


# -- sabotage


MECHANISMS: dict[str, Callable[[FleetRoom, dict[str, Any]], None]] = {
    "anybody_publishes": prove_fencing,
    "older_epochs_run_on": prove_fencing,
    "older_epochs_may_call": prove_silence,
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_gate_fails_without_its_mechanism(mended: FleetRoom, mechanism: str) -> None:
    with mended.without(mechanism, keep=True), pytest.raises((AssertionError, Refused)):
        MECHANISMS[mechanism](mended, {})
