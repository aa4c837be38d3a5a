"""What saving to and restoring from the local backend costs: `python -m tests.bench.store_local [--directory DIR] [--mib 344]`.

Method: memory-like content made of this interpreter's own files (code, text, tables), pointer-like and random pages and some zero
ones, in a file; each step in a fresh process, so that its peak RSS is its own; the source is read in 4 MiB batches. The page cache is warm,
as after a capture. Figures are of the machine it runs on, and of its load: CPU seconds tell what another process takes away.
"""

import argparse
import multiprocessing
import os
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints_app.store import CheckpointWriter, LocalBackend, SecretKey, derive_keys, load_index, load_manifest, restore_image

UNIT = 4096
MIB = 1 << 20
KEYS = derive_keys(SecretKey(bytes(range(32))))
FACTS = {"pin": "bench", "watermarks": {"event": 1}}
BATCH = 1024


def memory_like(path: Path, mib: int) -> None:
    """Half code and text, a third pointer tables, the rest random; one page in eight of the first kinds is zero."""
    rng = np.random.default_rng(7)
    files = (
        file
        for name in ("stdlib", "platlib")
        for file in sorted(Path(sysconfig.get_path(name)).rglob("*"))
        if file.suffix in (".so", ".py")
    )
    wanted = mib * MIB // 2
    with path.open("wb") as out:
        for file in files:
            if out.tell() >= wanted:
                break
            data = file.read_bytes()
            out.write(data + bytes(-len(data) % UNIT))
        pointers = (0x7F0000000000 + rng.integers(0, 1 << 24, mib * MIB // 3 // 8, dtype=np.int64) * 16).astype("<u8")
        out.write(pointers.tobytes())
        out.write(rng.bytes(max(0, mib * MIB * 15 // 16 - out.tell())))
        out.truncate(mib * MIB)


def increment(source: Path, target: Path, moved: int, fresh: int) -> np.ndarray[Any, Any]:
    """The next moment: `moved` units hold what other units held, `fresh` units are new. Returns the written units."""
    rng = np.random.default_rng(11)
    memory = np.fromfile(source, np.uint8).reshape(-1, UNIT)
    written = np.sort(rng.permutation(len(memory))[: moved + fresh])
    memory[written] = memory[rng.integers(0, len(memory), len(written))]
    new = rng.permutation(written)[:fresh]
    memory[new, :2048] = rng.integers(0, 256, (fresh, 2048), dtype=np.uint8)
    memory.tofile(target)
    return written


def batches(path: Path, numbers: np.ndarray[Any, Any]) -> Iterator[tuple[np.ndarray[Any, Any], bytes]]:
    with path.open("rb", buffering=0) as file:
        for start in range(0, len(numbers), BATCH):
            part = numbers[start : start + BATCH]
            yield part, _read(file.fileno(), part)


def _read(number: int, units: np.ndarray[Any, Any]) -> bytes:
    """One read per run of neighbours, as from a staging file or a process."""
    cuts = np.flatnonzero(np.diff(units) != 1) + 1
    return b"".join(os.pread(number, len(run) * UNIT, int(run[0]) * UNIT) for run in np.split(units, cuts))


def save(store: Path, source: Path, parent_id: str | None, numbers: np.ndarray[Any, Any] | None) -> dict[str, Any]:
    backend = LocalBackend(store)
    started = time.perf_counter()
    parent = load_manifest(backend, KEYS, "bench", parent_id) if parent_id else None
    index = load_index(backend, KEYS, "bench", parent)
    loaded = time.perf_counter()
    size = source.stat().st_size
    with CheckpointWriter(backend, KEYS, "bench", parent, index) as writer:
        writer.add_image("memory", size, None, batches(source, numbers if numbers is not None else np.arange(size // UNIT)))
        added = time.perf_counter()
        plan = writer.finish(FACTS)
    done = time.perf_counter()
    return {
        "manifest": plan.manifest.manifest_id,
        "written": plan.written_bytes,
        "unique": plan.unique_bytes,
        "stored": plan.stored_bytes,
        "manifest_bytes": plan.manifest_bytes,
        "seconds": done - started,
        "load": loaded - started,
        "add": added - loaded,
        "finish": done - added,
    }


def restore(store: Path, manifest_id: str, target: Path, threads: int) -> dict[str, Any]:
    backend = LocalBackend(store)
    started = time.perf_counter()
    manifest = load_manifest(backend, KEYS, "bench", manifest_id)
    with target.open("wb") as out:
        out.truncate(manifest.images["memory"].length_bytes)
        number = out.fileno()

        def sink(unit: int, data: memoryview) -> None:
            written = os.pwrite(number, data, unit * UNIT)
            if written != len(data):
                raise OSError("short write")

        restore_image(backend, KEYS, "bench", manifest, "memory", sink, threads=threads)
    return {"seconds": time.perf_counter() - started}


def apart(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Its result and its peak RSS, from a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measured, (function, arguments))


def _measured(function: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> dict[str, Any]:
    before, cpu = _peak_rss(), time.process_time()
    result = function(*arguments)
    return {**result, "cpu": time.process_time() - cpu, "rss": _peak_rss(), "rss_before": before}


def _peak_rss() -> float:
    """MiB, of this program alone (getrusage also counts what the process was before exec)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def show(name: str, result: dict[str, Any], payload: int) -> None:
    rate = payload / MIB / result["seconds"]
    memory = f"peak RSS {result['rss']:.0f} MiB ({result['rss_before']:.0f} before)"
    sys.stdout.write(f"{name}: {result['seconds']:.3f} s, {rate:.0f} MiB/s, CPU {result['cpu']:.2f} s, {memory}\n")
    if "stored" in result:
        parts = ", ".join(f"{part} {result[part]:.3f} s" for part in ("load", "add", "finish"))
        sizes = ", ".join(f"{part} {result[part] / MIB:.2f} MiB" for part in ("written", "unique", "stored", "manifest_bytes"))
        sys.stdout.write(f"    {sizes}; {parts}\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--directory", type=Path, default=None, help="where the files go (default: a temporary directory)")
    options.add_argument("--mib", type=int, default=344)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as name:
        work = Path(name)
        store, first, second = work / "store", work / "first", work / "second"
        memory_like(first, chosen.mib)
        payload = chosen.mib * MIB
        saved = apart(save, store, first, None, None)
        show(f"first save of {chosen.mib} MiB", saved, payload)
        idle = apart(save, store, first, saved["manifest"], np.arange(256))
        show("idle save (1 MiB written, nothing new)", idle, MIB)
        written = increment(first, second, 16000, 384)
        moved = apart(save, store, second, idle["manifest"], written)
        show("increment, 64 MiB written, 1.5 MiB new", moved, 64 * MIB)
        written = increment(first, second, 0, 16384)
        show("increment, 64 MiB written, all new", apart(save, store, second, idle["manifest"], written), 64 * MIB)
        for threads in (1, 2):
            target = work / f"restored{threads}"
            show(f"restore, {threads} threads", apart(restore, store, saved["manifest"], target, threads), payload)
            if target.read_bytes() != first.read_bytes():
                raise SystemExit("the restored image differs")
            target.unlink()


if __name__ == "__main__":
    main()
