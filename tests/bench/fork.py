"""`./keepstate bench fork`: eight children of one checkpoint: when the first and the last answers, and what they cost in memory."""

import time
from datetime import datetime
from typing import Any

from tests.bench.agent_machine import IMAGES, agent_machine, budget, described
from tests.bench.fork_memory import MachineMemory, machine_memory
from tests.bench.report import arguments, publish, row
from tests.gates.room import Room, Subject

CHILDREN = 8
IDLE_SECONDS = 2.0
METHOD = (
    f"Each round forks the machine into {CHILDREN} children: once while it runs (it is saved first and runs on), once as it is parked. "
    "An answer is when a child's resume has ended, after its guest answered and had taken its identity; its time counts from the "
    f"acceptance of the fork, both by the database's clock. Memory is read from /proc/PID/smaps {IDLE_SECONDS:g} s after the fork's "
    "answer, of the round with the parked machine: its program is asleep in it, so that the children are idle. Written: pages of the "
    "guest's memory that are the process's own. The budget of the sum is the image plus what all children have written: they share the "
    "rest."
)


class Times:
    """Seconds, of one condition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.first: list[float] = []
        self.last: list[float] = []
        self.apart: list[float] = []
        self.whole: list[float] = []

    def add(self, opened: Room, parent: Subject) -> list[Subject]:
        """Fork once; the children."""
        began = time.perf_counter()
        _, accepted = opened.client.call("POST", f"/api/sessions/{parent.id}/fork?n={CHILDREN}")
        answer: Any = opened.client.wait(accepted["operation_id"])
        self.whole.append(time.perf_counter() - began)
        if any(child["state"] != "running" for child in answer):
            raise SystemExit(f"a child does not run: {answer}")
        asked = _moment(opened.operation(accepted["operation_id"])["accepted_at"])
        answered = sorted(_moment(opened.operation(child["resume_operation_id"])["finished_at"]) - asked for child in answer)
        self.first.append(answered[0])
        self.last.append(answered[-1])
        self.apart.append(answered[-1] - answered[0])
        return [Subject(opened, child["id"]) for child in answer]

    def rows(self, image: str) -> list[Any]:
        return [
            row(f"{self.name}: request to the first child's answer", "s", self.first),
            row(f"{self.name}: request to the last child's answer", "s", self.last),
            row(f"{self.name}: the last answer after the first", "s", self.apart, budget=budget(image, 1.0)),
            row(f"{self.name}: request to the fork's answer, at the client", "s", self.whole),
        ]


def main() -> int:
    options = arguments(METHOD, IMAGES)
    running, parked = Times("running"), Times("parked")
    memory: list[list[MachineMemory]] = []
    with agent_machine(options.image) as (opened, subject):
        for _ in range(options.rounds or 5):
            _end(running.add(opened, subject))
            subject.exec(_SLEEP)
            subject.save(stop=True)
            children = parked.add(opened, subject)
            time.sleep(IDLE_SECONDS)
            memory.append([machine_memory(child) for child in children])
            _end(children)
            subject.resume()
            subject.exec(_WAKE)
    return publish(
        "fork",
        f"{described(options.image)}. {METHOD}",
        [*running.rows(options.image), *parked.rows(options.image), *_memory_rows(memory)],
        options.json,
    )


#: The pattern does not match the command line that it stands in.
_PROGRAM = "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline) in *agent.stat[u]s*) kill -{signal} ${{p#/proc/}} ;; esac; done"
_SLEEP, _WAKE = _PROGRAM.format(signal="STOP"), _PROGRAM.format(signal="CONT")


def _memory_rows(memory: list[list[MachineMemory]]) -> list[Any]:
    every = [one for children in memory for one in children]
    together = [sum(one.guest_pss for one in children) for children in memory]
    allowed = [_image_mib(children) + sum(one.guest_written for one in children) for children in memory]
    return [
        row("the image that the children share", "MiB", [_image_mib(children) for children in memory]),
        row("written by an idle child", "MiB", [one.guest_written for one in every]),
        row(f"guest memory of {CHILDREN} idle children together", "MiB", together),
        row(
            "the same, of image and written together",
            "share",
            [one / most for one, most in zip(together, allowed, strict=True)],
            budget=1.0,
            at="max",
        ),
        row("private to the hypervisor's process besides", "MiB", [one.hypervisor for one in every]),
    ]


def _image_mib(children: list[MachineMemory]) -> float:
    if len({one.image_inode for one in children}) != 1:
        raise SystemExit("the children do not all map one image")
    return children[0].image_mib


def _end(children: list[Subject]) -> None:
    for child in children:
        child.delete()


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


if __name__ == "__main__":
    raise SystemExit(main())
