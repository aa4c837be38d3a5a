"""`./keepstate bench soak`: live saves of a working agent in a row, then one resume: what is stored, and what grows."""

from dataclasses import dataclass, field
from typing import Any

from tests.bench.agent_machine import MEMORY_MIB, agent_machine, report_after
from tests.bench.report import Row, parser, publish, row
from tests.bench.resume_room import live_mib
from tests.bench.soak_footprint import Footprint, footprint
from tests.gates.room import Room, Subject

METHOD = (
    f"debian-python, {MEMORY_MIB} MiB, the demo's agent at work. Live saves over HTTP, one after the other, each after the agent has "
    "reported a later step; then SIGKILL the hypervisor, resume, and the agent reports on. Dedup ratio: the sum of the checkpoints' "
    "images in full, or of what the last memory image holds without its holes for each of them, divided by the bytes of all objects "
    "that the saves put into the store, manifests included. Growth: of each process that was there all the time, resident memory and "
    "open descriptors at the end minus those after the warm-up (a quarter of the saves, at least two). Scratch: allocated bytes of "
    "the host's directory (machines, staging, caches), likewise."
)
SAVES = 82
SEED_RATIO = 19.1  # of the seed project's own report, for 82 saves
MIB = 1 << 20


@dataclass
class Soak:
    logical: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    live_bytes: int = 0  # of the last memory image, without its holes: the disk's is not counted
    warm: Footprint | None = None
    end: Footprint | None = None

    @property
    def ratio(self) -> float:
        return sum(self.logical) / sum(self.stored)

    @property
    def ratio_of_data(self) -> float:
        return self.live_bytes * len(self.stored) / sum(self.stored)

    def rows(self) -> list[Row]:
        return [
            row("dedup ratio: images of all checkpoints / stored", "x", [self.ratio]),
            row("dedup ratio: what the last image holds, times the saves / stored", "x", [self.ratio_of_data], seed=SEED_RATIO),
            row("stored by a save", "MiB", [size / MIB for size in self.stored]),
            row("pause of a live save", "s", self.pauses),
            *self.growth_rows(),
        ]

    def growth_rows(self) -> list[Row]:
        assert self.warm is not None
        assert self.end is not None
        stayed = sorted(set(self.warm.resident) & set(self.end.resident))
        memory = [(self.end.resident[pid] - self.warm.resident[pid]) / 1024 for pid in stayed]
        descriptors = [float(self.end.descriptors[pid] - self.warm.descriptors[pid]) for pid in stayed]
        scratch = [(self.end.scratch.get(name, 0) - size) / MIB for name, size in self.warm.scratch.items()]
        return [
            row("growth of a process's resident memory", "MiB", memory),
            row("growth of a process's open descriptors", "", descriptors),
            row("growth of a part of the scratch on disk", "MiB", scratch),
        ]

    def details(self) -> dict[str, Any]:
        """Each process and directory by name, at the warm-up and at the end."""
        assert self.warm is not None
        assert self.end is not None
        processes = [
            {
                "process": self.warm.names[pid],
                "resident_kib": [self.warm.resident[pid], self.end.resident[pid]],
                "descriptors": [self.warm.descriptors[pid], self.end.descriptors[pid]],
            }
            for pid in sorted(set(self.warm.resident) & set(self.end.resident))
        ]
        scratch = {name: [size, self.end.scratch.get(name, 0)] for name, size in self.warm.scratch.items()}
        return {"processes": processes, "scratch_bytes": scratch, "saves": len(self.stored)}


def main() -> int:
    options, soak = parser(METHOD, saves=("live saves in a row", SAVES)).parse_args(), Soak()
    with agent_machine() as (opened, subject):
        step = 0
        for number in range(options.saves):
            step = report_after(subject, step)
            saved = subject.save()
            soak.pauses.append(saved["pause_seconds"])
            if number + 1 == max(2, options.saves // 4):
                soak.warm = footprint(opened.root)
        soak.end = footprint(opened.root)
        _sizes(opened, subject, soak)
        soak.live_bytes = live_mib(opened) * MIB
        subject.kill()
        subject.resume()
        report_after(subject, step - 1)
    details = soak.details()
    for one in details["processes"]:
        print(f"{one['process']:62} {one['resident_kib'][0]:9} -> {one['resident_kib'][1]:9} KiB   {one['descriptors']}")
    for name, (before, after) in details["scratch_bytes"].items():
        print(f"scratch {name:54} {before // MIB:9} -> {after // MIB:9} MiB")
    return publish("soak", METHOD, soak.rows(), options.json, **details)


def _sizes(opened: Room, subject: Subject, soak: Soak) -> None:
    """From the service's own account of each checkpoint. SystemExit if one is missing."""
    page = opened.client.get(f"/api/v2/sessions/{subject.id}/checkpoints?limit=200")
    for checkpoint in page["items"]:
        soak.logical.append(int(checkpoint["logical_bytes"]))
        soak.stored.append(int(checkpoint["stored_bytes"]))
    if len(soak.stored) != len(soak.pauses):
        raise SystemExit(f"{len(soak.pauses)} saves and {len(soak.stored)} checkpoints: the ratio would be of something else")


if __name__ == "__main__":
    raise SystemExit(main())
