"""What saving to and restoring from an S3 server costs: `python -m tests.bench.store_s3 [--directory DIR] [--mib 344]`.

Method: a SeaweedFS process on loopback, on the same cores as we; single objects of 16 MiB of random bytes, then whole saves and restores
of the content that store_local makes, each step in a fresh process (connecting and probing are not timed). The server's own CPU seconds are
told apart, since on a fleet they are another machine's.
"""

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints_app.store import CheckpointWriter, load_index, load_manifest, restore_image
from checkpoints_app.store.backends.s3 import S3Place, open_backend
from tests.bench.store_local import FACTS, KEYS, MIB, UNIT, apart, batches, memory_like, show
from tests.support.seaweed import S3Server, seaweed

OBJECT_BYTES = 16 * MIB
OBJECTS = 16


def put_objects(place: S3Place, threads: int) -> dict[str, Any]:
    backend, body = open_backend(place), os.urandom(OBJECT_BYTES)
    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda number: backend.put_if_absent(f"put-by-{threads}/{number}", [body]), range(OBJECTS)))
    return {"seconds": time.perf_counter() - started}


def get_objects(place: S3Place, threads: int) -> dict[str, Any]:
    backend = open_backend(place)
    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        sizes = list(pool.map(lambda number: len(backend.read(f"put-by-{threads}/{number}", 0, OBJECT_BYTES)), range(OBJECTS)))
    if sizes != [OBJECT_BYTES] * OBJECTS:
        raise SystemExit("an object came back short")
    return {"seconds": time.perf_counter() - started}


def delete_objects(place: S3Place, prefix: str) -> None:
    backend = open_backend(place)
    for listed in list(backend.list(prefix)):
        backend.delete(listed.key)


def save(place: S3Place, source: Path, threads: int) -> dict[str, Any]:
    backend = open_backend(place)
    started = time.perf_counter()
    size = source.stat().st_size
    index = load_index(backend, KEYS, "bench", None)
    with CheckpointWriter(backend, KEYS, "bench", None, index, threads=threads) as writer:
        writer.add_image("memory", size, None, batches(source, np.arange(size // UNIT)))
        plan = writer.finish(FACTS)
    return {"manifest": plan.manifest.manifest_id, "bytes": plan.stored_bytes, "seconds": time.perf_counter() - started}


def restore(place: S3Place, manifest_id: str, target: Path, threads: int) -> dict[str, Any]:
    backend = open_backend(place)
    started = time.perf_counter()
    manifest = load_manifest(backend, KEYS, "bench", manifest_id)
    with target.open("wb") as out:
        out.truncate(manifest.images["memory"].length_bytes)
        number = out.fileno()
        restore_image(backend, KEYS, "bench", manifest, "memory", lambda unit, data: _write(number, unit, data), threads=threads)
    return {"seconds": time.perf_counter() - started}


def _write(number: int, unit: int, data: memoryview) -> None:
    if os.pwrite(number, data, unit * UNIT) != len(data):
        raise OSError("short write")


def server_cpu(server: S3Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def step(server: S3Server, name: str, payload: int, function: Any, *arguments: Any) -> dict[str, Any]:
    before = server_cpu(server)
    result = apart(function, *arguments)
    show(name, result, payload)
    stored = f", stored {result['bytes'] / MIB:.1f} MiB" if "bytes" in result else ""
    sys.stdout.write(f"    server CPU {server_cpu(server) - before:.2f} s{stored}\n")
    return result


def run(server: S3Server, work: Path, mib: int) -> None:
    place, payload, source = server.place("bench"), mib * MIB, work / "source"
    for threads in (1, 2):
        step(server, f"put {OBJECTS} objects of 16 MiB, {threads} threads", OBJECTS * OBJECT_BYTES, put_objects, place, threads)
        step(server, f"get {OBJECTS} objects of 16 MiB, {threads} threads", OBJECTS * OBJECT_BYTES, get_objects, place, threads)
        delete_objects(place, f"put-by-{threads}/")
    memory_like(source, mib)
    for threads in (1, 2):
        saved = step(server, f"first save of {mib} MiB, {threads} threads", payload, save, place, source, threads)
        target = work / "target"
        step(server, f"restore, {threads} threads", payload, restore, place, saved["manifest"], target, threads)
        if target.read_bytes() != source.read_bytes():
            raise SystemExit("the restored image differs")
        target.unlink()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--directory", type=Path, default=None, help="where the files go (default: a temporary directory)")
    options.add_argument("--mib", type=int, default=344)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as name:
        work = Path(name)
        (work / "server").mkdir()
        with seaweed(work / "server", disk_mib=4096 + 4 * chosen.mib, memory_mib=1024) as server:
            run(server, work, chosen.mib)


if __name__ == "__main__":
    main()
