"""Gate 2a under write load: a heap, an open file and a file system that is nearly full are whole after cycles of save, kill and resume.

Twenty cycles by `./keepstate prove`; one in the whole suite.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from keepstate_site.demo.agent import LOG, PROGRAM, REPORT_EVERY, Simulation
from tests.gates.room import Room, Subject
from tests.support.waiting import until

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(600)]
CYCLES = int(os.environ.get("KEEPSTATE_CYCLES", "1"))
LOAD, BROKEN = "/root/load", "/root/load.broken"
FULL_PERCENT = 95

#: Files that come and go, each with its own checksum, by rename; what was written before is read again, and a wrong byte is told.
WRITER = f"""
import hashlib, os, random
os.makedirs("{LOAD}", exist_ok=True)
n = 0
while True:
    n += 1
    path = "{LOAD}/%d" % random.randrange(40)
    body = os.urandom(random.randrange(1, 60000))
    with open(path + ".new", "wb") as file:
        file.write(hashlib.sha256(body).digest() + body)
        if n % 3 == 0:
            os.fsync(file.fileno())
    os.replace(path + ".new", path)
    other = "{LOAD}/%d" % random.randrange(40)
    if os.path.exists(other):
        found = open(other, "rb").read()
        if hashlib.sha256(found[32:]).digest() != found[:32]:
            open("{BROKEN}", "a").write(other + "\\n")
        if n % 5 == 0:
            os.unlink(other)
"""
#: Blocks that are taken and never written make a disk as full as written ones do.
FILL = (
    "set -- $(df -k --output=size,avail / | tail -n 1); fallocate -l $(( $2 - $1 * 4 / 100 ))K /root/filler; "
    "df --output=pcent / | tail -n 1"
)


def put_to_work(opened: Room) -> Subject:
    subject = Subject(opened, opened.client.do("POST", "/api/sessions", {"Image": "debian-python", "Memory": 512})["id"])
    percent = int(subject.exec(FILL)["stdout"].strip().rstrip("%"))
    assert percent >= FULL_PERCENT, f"the guest's disk is {percent} % full"
    for program in (PROGRAM, WRITER):
        argv = ["/bin/sh", "-c", 'python3 -c "$0" >/dev/null 2>&1 </dev/null &', program]
        opened.client.do("POST", f"/api/sessions/{subject.id}/exec", {"Argv": argv, "Timeout": 20})
    until(lambda: reports(subject), 60, "the agent reports")
    return subject


def reports(subject: Subject) -> list[list[str]]:
    """(step, checksum, nonce) of each line that the agent wrote to the file it has had open since its start."""
    return [words for line in subject.exec(f"cat {LOG}")["stdout"].splitlines() if len(words := line.split()) == 3]


def prove_cycle(subject: Subject, simulation: Simulation) -> None:
    subject.save()
    subject.kill()
    subject.resume()
    seen = len(reports(subject))
    until(lambda: len(reports(subject)) > seen, 60, "the agent goes on")
    lines = reports(subject)
    assert [int(step) for step, _, _ in lines] == [REPORT_EVERY * (n + 1) for n in range(len(lines))], "the open file has a gap"
    assert len({nonce for _, _, nonce in lines}) == 1, "another program runs than the one that was saved"
    assert lines[-1][1] == simulation.checksum(int(lines[-1][0])), "the heap is not what an independent simulation of it is"
    assert not subject.exec(f"cat {BROKEN} 2>/dev/null")["stdout"], "a file is not what was written"


def file_system(subject: Subject, raw: Path) -> None:
    """The session's disk as one raw file. It has no journal, so what the guest's memory holds of it is written first, as at a shutdown."""
    stopped = subject.exec("pkill -9 python3; until mount -o remount,ro /; do sleep 0.1; done; sync")
    assert stopped["exit_code"] == 0, stopped
    subject.save()
    subject.kill()
    subject.resume()
    disks = [path for path in (subject.room.root / "host").glob("*/cache/disk/*") if path.suffix == "" and not path.name.startswith("tmp-")]
    newest = max(disks, key=lambda path: path.stat().st_ctime)
    subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", newest, raw], check=True)


def assert_clean(raw: Path) -> None:
    found = subprocess.run(["e2fsck", "-fn", raw], check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


@pytest.mark.gate(
    "2a",
    "Under write load on a disk that is 95 % full, a heap equals an independent simulation of it, an open file has no gap, and the file "
    f"system is clean after {CYCLES} cycles of save, kill -9 and resume",
)
def test_heap_open_file_and_file_system_are_whole_after_cycles_under_load(
    gate_room: Room, tmp_path: Path, evidence: dict[str, Any]
) -> None:
    subject, simulation = put_to_work(gate_room), Simulation()
    for _ in range(CYCLES):
        prove_cycle(subject, simulation)
    raw = tmp_path / "disk.raw"
    file_system(subject, raw)
    assert_clean(raw)
    evidence |= {"cycles": CYCLES, "lines_of_the_open_file": len(reports(subject)), "file_system": "clean"}
    subject.delete()
    damage(raw)
    with pytest.raises(AssertionError):
        assert_clean(raw)  # the check sees a file system that is not whole


def damage(raw: Path) -> None:
    """As if one cluster of the disk were another's: the first blocks after the superblock hold what the rest is found by."""
    with open(raw, "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(4096))
