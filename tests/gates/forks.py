"""What gate 5 looks at in the children of a fork: files, draws of randomness, identity, and the image that their processes map."""

import json
import mmap
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from tests.gates.room import Room, Subject
from tests.support.waiting import until

COMMON, MINE = "/root/common", "/root/mine"
DRAWS, DRAWING = "/run/draws", "/run/drawing"
#: A number and a draw from the kernel's generator, again and again: the first draws after a resume are made before anybody has asked.
#: Nine guests of it must be light on two emulated processors, so a draw is a read that starts no program.
DRAWER = f'n=0; while [ -e {DRAWING} ]; do n=$((n+1)); read -r u </proc/sys/kernel/random/uuid; echo "$n $u" >>{DRAWS}; sleep PAUSE; done'
FOLLOWING = 10


@dataclass(frozen=True)
class Forked:
    """`drawn`: how many draws its parent had made when the save of the fork was published; the saved moment holds no more of them."""

    parent: Subject
    children: list[Subject]
    answer: list[dict[str, Any]]
    drawn: int


def fork(opened: Room, image: str, count: int, *, pause: float = 0.2, **wanted: Any) -> Forked:
    """Children of a machine as it is now, each of which runs; it has drawn before, and draws after each pause of so many seconds."""
    parent = Subject(opened, opened.client.do("POST", "/api/sessions", {"Image": image, **wanted})["id"])
    drawer = DRAWER.replace("PAUSE", str(pause))
    parent.exec(f"mkdir -p /root; echo common > {COMMON}; touch {DRAWING}; sync; ({drawer}) >/dev/null 2>&1 </dev/null &")
    until(lambda: len(draws_of(parent)) > 1, 30, "the guest draws")
    asked = parent.ask(f"fork?n={count}", {})
    until(lambda: "valid" in [point["state"] for point in parent.checkpoints()], 60, "the save of the fork is published")
    drawn = len(draws_of(parent))
    answer: Any = opened.client.wait(asked)
    assert [child["state"] for child in answer] == ["running"] * count, answer
    return Forked(parent, [Subject(opened, child["id"]) for child in answer], answer, drawn)


def draws_of(subject: Subject) -> dict[int, str]:
    """The draws by their number, from 1."""
    found = [line.split() for line in subject.exec(f"cat {DRAWS}")["stdout"].splitlines()]
    return {int(words[0]): words[1] for words in found if len(words) == 2}


def prove_randomness(forked: Forked, evidence: dict[str, Any]) -> None:
    """The machines' draws begin alike, for they have one past; of those after the fork no two machines ever share one."""
    machines = [forked.parent, *forked.children]
    for machine in machines:
        until(partial(_has_drawn, machine, forked.drawn + FOLLOWING), 60, "the machine goes on drawing")
    drawn = [draws_of(machine) for machine in machines]
    for machine in machines:
        machine.exec(f"rm {DRAWING}")  # nine programs that go on drawing would slow down all that follows
    common = {draw for one, other in combinations(drawn, 2) for draw in set(one.values()) & set(other.values())}
    new = common - drawn_before(forked.children[0], common)
    evidence |= {"draws": [len(one) for one in drawn], "draws_in_common": len(common), "of_them_after_the_fork": len(new)}
    assert len({one[1] for one in drawn}) == 1, "the machines have a past in common"
    assert not new, "machines of one checkpoint draw the same numbers"


def drawn_before(child: Subject, draws: set[str]) -> set[str]:
    """Of these draws, those that the saved memory holds: whatever it does not hold was drawn after the moment of the save."""
    with open(str(record_of(child)["memory"]), "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        return {draw for draw in draws if memory.find(draw.encode()) >= 0}


def _has_drawn(machine: Subject, count: int) -> bool:
    return len(draws_of(machine)) >= count


def prove_identity(forked: Forked, evidence: dict[str, Any]) -> None:
    told = [child.exec("hostname; cat /etc/machine-id")["stdout"].split() for child in forked.children]
    evidence |= {"hostnames": [words[0] for words in told], "machine_ids": len({words[-1] for words in told})}
    assert [words[0] for words in told] == [row["short_id"] for row in forked.answer], "each child bears the name of its session"
    assert len({words[1] for words in told}) == len(told), "each child has a machine id of its own"


def mapped_images(subject: Subject) -> set[str]:
    """Device and inode of the file that the machine's process maps as its memory."""
    (pid,) = subject.pids()
    inode = str(record_of(subject)["memory_inode"])
    maps = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {f"{words[3]} {words[4]}" for words in maps if words[4] == inode}


def record_of(subject: Subject) -> dict[str, Any]:
    """What the host has written down of the session's machine."""
    (record,) = (subject.room.root / "host").glob(f"*/machines/{subject.id}.*/machine.json")
    found: dict[str, Any] = json.loads(record.read_text())
    return found
