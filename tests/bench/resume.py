"""`./keepstate bench resume`: from the API request to the guest's answer: hot, warm and cold, whole and lazy, in turn."""

import shutil
import time
from pathlib import Path

from tests.bench.agent_machine import peak_worker_mib, report_after
from tests.bench.plot import plot
from tests.bench.report import Row, arguments, publish, row
from tests.bench.resume_peers import peers
from tests.bench.resume_room import (
    BALLAST,
    BALLAST_MIB,
    CONDITIONS,
    HOT,
    MEMORY_MIB,
    agent,
    live_mib,
    prepare,
    resume_room,
    seconds_until_verified,
    timed_resume,
)
from tests.gates.room import IMAGES, Subject
from workers.guest.image import list_images

OLD_SECONDS = 16 * 3600
METHOD = (
    f"debian-python, {MEMORY_MIB} MiB, the demo's agent at work beside {BALLAST_MIB} MiB of words, random bytes and gaps; the store is "
    "SeaweedFS on loopback, on the same cores. Each round saves the machine once, then for each condition in turn: SIGKILL QEMU, "
    "remove what a host in that condition does not have, resume over HTTP, wait until the operation says that the guest answered. "
    "hot: the assembled images are there (re-hashed before a virtual CPU runs). warm: its packs are. cold: nothing is. Files that "
    "stay may be in the page cache. whole: every byte is verified before the machine runs. lazy: each before it is read. QEMU's own: "
    "the same image, memory and programs; from the start of the process to the guest's answer, without an API, a store or a check. 16 "
    "hours: the guest's clock is set back so far before the save, and compared with the host's right after the resume."
)


class Figures:
    """Seconds by condition."""

    def __init__(self) -> None:
        self.asked: dict[str, list[float]] = {one.name: [] for one in CONDITIONS}
        self.running: dict[str, list[float]] = {one.name: [] for one in CONDITIONS}
        self.verified: dict[str, list[float]] = {one.name: [] for one in CONDITIONS if one.mode == "lazy"}
        self.small: dict[str, dict[str, list[float]]] = {image: {one.name: [] for one in CONDITIONS} for image in small_images()}

    def rows(self, beside: dict[str, float]) -> list[Row]:
        asked = "API request to guest answer"
        large = [row(f"{one.name}: {asked}", "s", self.asked[one.name], budget=one.budget, at="p95", **beside) for one in CONDITIONS]
        parts = [row(f"{name}: claimed to virtual CPUs running", "s", seconds) for name, seconds in self.running.items()]
        lazy = [row(f"{name}: API request until all is verified", "s", seconds) for name, seconds in self.verified.items()]
        small = [
            row(f"{image}, memory only, {name}: {asked}", "s", seconds)
            for image, figures in self.small.items()
            for name, seconds in figures.items()
        ]
        return [*large, *parts, *lazy, *small]


def small_images() -> list[str]:
    """Machines without a disk: of both architectures where this host emulates the other one."""
    here = {image.name for image in list_images(IMAGES)}
    return ["tiny", *(["tiny-arm64"] if shutil.which("qemu-system-aarch64") and "tiny-arm64" in here else [])]


def main() -> int:
    options, figures, old, apart = arguments(METHOD, plots=True), Figures(), [], []
    rounds = options.rounds or 20
    with resume_room() as opened:
        subject = agent(opened)
        for _ in range(rounds):
            measure(subject, figures)
        for _ in range(max(1, rounds // 4)):
            seconds, difference = measure_old(subject)
            old.append(seconds)
            apart.append(difference)
        live, peak = live_mib(opened), peak_worker_mib(opened)
        subject.delete()  # one machine at a time: a second one that works takes a third of these processors
        for image, taken in figures.small.items():
            machine = opened.start(image, Memory=256)
            for _ in range(rounds):
                measure_small(machine, taken)
            machine.delete()
    found = peers(MEMORY_MIB, BALLAST, max(1, rounds // 4))
    beside = {f"qemu_{name}": round(sorted(seconds)[len(seconds) // 2], 4) for name, seconds in found.items()}
    rows = [
        *figures.rows(beside),
        row("16 hours old, hot: API request to guest answer", "s", old, budget=HOT.budget),
        row("16 hours old: the guest's clock from the host's", "s", apart, budget=1.0),
        *[row(f"QEMU alone: {name}", "s", seconds) for name, seconds in found.items()],
        row("live memory of the machine", "MiB", [live]),
        row("peak memory of a worker process", "MiB", [peak]),
    ]
    if options.plot:
        shown = {**figures.asked, **{f"QEMU: {name}": seconds for name, seconds in found.items()}}
        Path(options.plot).write_text(plot("API request to guest answer, seconds", shown))
    return publish("resume", METHOD, rows, options.json)


def measure(subject: Subject, figures: Figures) -> None:
    report_after(subject, 0)
    subject.save()
    for condition in CONDITIONS:
        subject.kill()
        prepare(subject, condition)
        began = time.perf_counter()
        seconds, answer = timed_resume(subject, condition)
        figures.asked[condition.name].append(seconds)
        figures.running[condition.name].append(answer["running_seconds"])
        if condition.mode == "lazy":
            figures.verified[condition.name].append(seconds_until_verified(subject, began))
        report_after(subject, 0)


def measure_small(machine: Subject, figures: dict[str, list[float]]) -> None:
    machine.save()
    for condition in CONDITIONS:
        machine.kill()
        prepare(machine, condition)
        seconds, _ = timed_resume(machine, condition)
        figures[condition.name].append(seconds)
        if condition.mode == "lazy":
            seconds_until_verified(machine, 0)


def measure_old(subject: Subject) -> tuple[float, float]:
    """(seconds of the resume, how far the guest's clock is from the host's after it)."""
    subject.exec(f"date -s @$(( $(date +%s) - {OLD_SECONDS} ))")
    subject.save()
    subject.kill()
    seconds, _ = timed_resume(subject, HOT)
    asked = time.time()
    seen = float(subject.exec("date +%s.%N")["stdout"])
    return seconds, max(asked - seen, seen - time.time(), 0.0)


if __name__ == "__main__":
    raise SystemExit(main())
