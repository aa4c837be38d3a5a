"""`./keepstate bench store`: the checkpoint store on real images, beside restic, borg and casync on the same bytes in the same run."""

import argparse
import filecmp
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import store_large
from tests.bench.moments import Moment, moments
from tests.bench.ours import IMAGES
from tests.bench.peers import PEERS, Ours, Store, stores, versions
from tests.bench.report import Row, publish, quantile, row
from tests.bench.watched import Watched

METHOD = (
    "Memory (2 GiB) and disk (4 GiB) of a real agent's machine at {moments} moments, taken once (tests/bench/moments.py). First saves go "
    "into empty repositories, every program in turn; then each moment is saved by every program in turn; then the last is "
    "restored by each, on one core and on two, and compared with what was saved. Programs are timed whole, from start to exit, but for "
    "the rows that say otherwise. A peer reads the files; ours the data of the sparse files at the first save, and then, "
    "as the product does, the units that were written. Ours and borg sync what they write. The "
    "page cache is warm. Load average {load[0]:.1f} before, {load[1]:.1f} after. {versions}."
)
MIB = 1 << 20
PART_UNITS = 64 * MIB // 4096


def main() -> int:
    options = _arguments()
    taken = moments(options.moments, (options.rounds or 10) + 1, options.images)
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="keepstate-bench-", dir=options.scratch) as scratch:
        measured = stores(Path(scratch), options.beside)
        ours = measured[0]
        assert isinstance(ours, Ours)
        firsts = _first_saves(Path(scratch), taken[0], options.firsts, options.beside)
        for store in measured:
            store.prepare()
        for number, moment in enumerate(taken):
            for store in measured:
                done = store.save(number, moment)
                print(f"moment {number:2} {store.name:26} {done.seconds:8.2f} s {done.cpu_seconds:8.2f} s of processor", flush=True)
        rows = [*_saves(measured, taken, firsts), *_increments(measured, taken), *_memory(measured)]
        rows += _restores(measured, taken, Path(scratch) / "restored", options.restores)
        rows += _part(ours, taken)
        rows += store_large.rows(Path(scratch))
    method = METHOD.format(moments=len(taken), load=(before, os.getloadavg()[0]), versions=", ".join(versions()))
    return publish("store", method, rows, options.json)


def _first_saves(scratch: Path, moment: Moment, times: int, beside: Sequence[str]) -> dict[str, list[Watched]]:
    """Of each program in turn, each time into a repository of its own."""
    found: dict[str, list[Watched]] = {}
    for number in range(times):
        for store in stores(scratch / f"first-{number}", beside):
            store.prepare()
            found.setdefault(store.name, []).append(store.save(0, moment))
            print(f"first save {number} {store.name:26} {found[store.name][-1].seconds:8.2f} s", flush=True)
        shutil.rmtree(scratch / f"first-{number}")
    return found


def _saves(measured: Sequence[Store], taken: Sequence[Moment], firsts: Mapping[str, Sequence[Watched]]) -> list[Row]:
    seconds = {name: [one.seconds for one in done] for name, done in firsts.items()}
    data = sum(len(taken[0].written(name)) for name in IMAGES) * 4096 / MIB
    rate = {name: [data / one for one in values] for name, values in seconds.items()}
    return [
        row("data in the first moment", "MiB", [data]),
        _beside("first save", "s", seconds, share=0.5),
        _beside("first save", "MiB/s", rate),
        _beside("first save, processor", "s", {name: [one.cpu_seconds for one in done] for name, done in firsts.items()}),
        _beside("first save, stored bytes", "MiB", {store.name: [store.bytes_after[0] / MIB] for store in measured}),
    ]


def _increments(measured: Sequence[Store], taken: Sequence[Moment]) -> list[Row]:
    grown = {store.name: [(b - a) / MIB for a, b in zip(store.bytes_after, store.bytes_after[1:], strict=False)] for store in measured}
    written = [sum(len(moment.written(name)) for name in IMAGES) * 4096 / MIB for moment in taken[1:]]
    return [
        row("written between two moments", "MiB", written),
        _beside("an increment", "s", {store.name: [one.seconds for one in store.saves[1:]] for store in measured}),
        _beside("an increment, processor", "s", {store.name: [one.cpu_seconds for one in store.saves[1:]] for store in measured}),
        _beside("an increment, stored bytes", "MiB", grown, share=0.25),
        _beside("all moments, stored bytes", "MiB", {store.name: [store.bytes_after[-1] / MIB] for store in measured}),
        _beside("all moments, objects", "", {store.name: [store.objects()] for store in measured}),
    ]


def _memory(measured: Sequence[Store]) -> list[Row]:
    peaks = {store.name: [one.peak_mib for one in store.saves] for store in measured}
    ours, beside = _split(peaks)
    return [row("peak memory of a save", "MiB", ours, budget=256, at="max", **beside)]


def _restores(measured: Sequence[Store], taken: Sequence[Moment], target: Path, times: int) -> list[Row]:
    last, rows, peaks = len(taken) - 1, [], []
    for cores in (1, 2):
        seconds: dict[str, list[float]] = {store.name: [] for store in measured}
        for _ in range(times):
            for store in measured:
                done = store.restore(last, target, cores)
                _require_equal(store, taken[last], target)
                seconds[store.name].append(done.seconds)
                if store is measured[0]:
                    peaks.append(done.peak_mib)
                print(f"restore on {cores} {store.name:26} {done.seconds:8.2f} s {done.cpu_seconds:8.2f} s of processor", flush=True)
        rows.append(_beside(f"restore of the last moment, {cores} core{'s' * (cores > 1)}", "s", seconds, share=1.0))
    shutil.rmtree(target)
    return [*rows, row("peak memory of a restore", "MiB", peaks, budget=256, at="max")]


def _require_equal(store: Store, moment: Moment, target: Path) -> None:
    for name in IMAGES:
        (restored,) = target.rglob(f"{name}.raw")
        if not filecmp.cmp(restored, moment.directory / f"{name}.raw", shallow=False):
            raise SystemExit(f"{store.name} restored other bytes than it was given: its figures are worth nothing")


def _part(ours: Ours, taken: Sequence[Moment]) -> list[Row]:
    told = [ours.save_part(number, moment, PART_UNITS) for number, moment in enumerate(taken) if number]
    return [
        row("64 MiB written: stored, durable", "s", [one["seconds"] for one in told], budget=0.5, at="p95"),
        row("64 MiB written: stored bytes", "MiB", [one["stored"] / MIB for one in told]),
        row("ours: an increment, without the program's start", "s", [one["seconds"] for one in ours.told[1:]]),
        row("ours: first save, without the program's start", "s", [ours.told[0]["seconds"]]),
    ]


def _beside(name: str, unit: str, values: dict[str, list[float]], share: float | None = None) -> Row:
    """Ours, with the medians of the peers beside it. With `share`, ours may be at most that share of the best peer's."""
    ours, beside = _split(values)
    budget = None if share is None else round(share * min(beside.values()), 4)
    return row(name, unit, ours, budget=budget, at="p50", **beside)


def _split(values: dict[str, list[float]]) -> tuple[list[float], dict[str, float]]:
    ours, *peers = values.items()
    return ours[1], {name: round(quantile(measured, 0.5), 4) for name, measured in peers}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=METHOD)
    state = Path(os.environ.get("KEEPSTATE_VAR") or "var").absolute()
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, help="increments (10)")
    parser.add_argument("--beside", action="append", default=[], choices=PEERS, help="only this peer; may be given again (all)")
    parser.add_argument("--firsts", type=int, default=3, help="first saves (3)")
    parser.add_argument("--restores", type=int, default=3, help="restores of each row (3)")
    parser.add_argument("--moments", type=Path, default=state / "bench" / "moments", help="where the machine's moments are kept; 8 GiB")
    parser.add_argument("--scratch", type=Path, default=None, help="where the repositories go (default: a temporary directory)")
    parser.add_argument("--images", type=Path, default=Path(os.environ.get("KEEPSTATE_IMAGES") or state / "images"))
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
