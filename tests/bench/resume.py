"""`./keepstate bench resume`: from the API request to the guest's answer, by where the images come from."""

import time
from typing import Any

from tests.bench.agent_machine import MEMORY_MIB, agent_machine, peak_worker_mib, report_after
from tests.bench.report import arguments, publish, row
from tests.gates.room import Subject

METHOD = (
    f"debian-python, {MEMORY_MIB} MiB, the demo's agent at work; hot and stored rounds in turn. Each round: save live, SIGKILL the "
    "hypervisor, resume over HTTP, wait until the operation says that the guest answered. hot: the host has the assembled images "
    "(re-hashed before use). stored: the host's images are removed, every unit is read from the local store, opened, verified and written."
)


def main() -> int:
    options = arguments(METHOD)
    asked: dict[str, list[float]] = {"hot": [], "stored": []}
    running: dict[str, list[float]] = {"hot": [], "stored": []}
    with agent_machine() as (opened, subject):
        for _ in range(options.rounds or 20):
            for origin, seconds_of in asked.items():
                report_after(subject, 0)
                subject.save()
                subject.kill()
                if origin == "stored":
                    opened.forget_cache()
                seconds, answer = timed_resume(subject)
                if answer["images_from"] != origin:
                    raise SystemExit(f"a resume that should have been {origin} was {answer['images_from']}")
                seconds_of.append(seconds)
                running[origin].append(answer["running_seconds"])
        peak = peak_worker_mib(opened)
    return publish(
        "resume",
        METHOD,
        [
            row("hot: API request to guest answer", "s", asked["hot"], budget=0.6),
            row("hot: operation claimed to virtual CPUs running", "s", running["hot"]),
            row("stored: API request to guest answer", "s", asked["stored"]),
            row("stored: operation claimed to virtual CPUs running", "s", running["stored"]),
            row("peak memory of a worker process", "MiB", [peak]),
        ],
        options.json,
    )


def timed_resume(subject: Subject) -> tuple[float, dict[str, Any]]:
    began = time.perf_counter()
    answer = subject.resume()
    return time.perf_counter() - began, answer


if __name__ == "__main__":
    raise SystemExit(main())
