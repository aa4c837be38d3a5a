"""`./keepstate bench pause`: how long a live save stops the machine, by how much had been written."""

from tests.bench.agent_machine import IMAGES, agent_machine, budget, described, peak_worker_mib, report_after
from tests.bench.report import arguments, publish, row

METHOD = (
    "Each round: resume, let the agent report, save live; then save "
    "again in the same process. The pause is measured on the host from the stop of the virtual CPUs to their going on. Written: pages "
    "private to the process since its image was mapped."
)
MIB = 1 << 20
SMALL = 8 * MIB


def main() -> int:
    options = arguments(METHOD, IMAGES)
    first: list[dict[str, float]] = []
    again, written, stored = [], [], []
    with agent_machine(options.image) as (opened, subject):
        boot = subject.save()
        for _ in range(options.rounds or 10):
            subject.kill()
            subject.resume()
            report_after(subject, 0)
            saved = subject.save()
            first.append(saved)
            again.append(subject.save()["pause_seconds"])
            written.append(saved["written_bytes"] / MIB)
            stored.append(saved["stored_bytes"] / MIB)
        peak = peak_worker_mib(opened)
    small = [saved["pause_seconds"] for saved in first if saved["written_bytes"] <= SMALL]
    return publish(
        "pause",
        f"{described(options.image)}. {METHOD}",
        [
            row("pause of a live save, <= 8 MiB written", "s", small, budget=budget(options.image, 0.030)),
            row("pause of a live save, all rounds", "s", [saved["pause_seconds"] for saved in first]),
            row("pause of the next live save of the same process", "s", again),
            row("pause of the first save after a boot", "s", [boot["pause_seconds"]]),
            row("written since the resume", "MiB", written),
            row("written at the first save after a boot", "MiB", [boot["written_bytes"] / MIB]),
            row("stored by a save", "MiB", stored),
            row("peak memory of a worker process", "MiB", [peak]),
        ],
        options.json,
    )


if __name__ == "__main__":
    raise SystemExit(main())
