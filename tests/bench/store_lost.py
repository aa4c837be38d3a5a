"""What connections that were lost without a word cost a restore from S3: `python -m tests.bench.store_lost [--directory DIR] [--mib 256]`.

Method: a SeaweedFS process on loopback, behind a line that swallows from a moment on what is sent on the connections of before, and
serves new ones; memory-like content, a client with the product's times. A restore first opens the connections; then the manifest is read
and the image restored by eight threads, once as they are and once when all are lost. Lazily: packs stream in by the product's fetchers;
when a third has come the connections are lost, and a page is asked for that is not there. What came is compared with what was saved.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from checkpoints_app.store import CheckpointWriter, Manifest, load_index, load_manifest, restore_image
from checkpoints_app.store.backends.s3 import S3Backend, S3Place, open_backend
from tests.bench.store_local import MIB, UNIT, batches, memory_like
from tests.store_kit import ACCOUNT, FACTS, KEYS
from tests.support.lazy_store import plan_of
from tests.support.lossy_line import LossyLine, lossy_line
from tests.support.seaweed import seaweed
from tests.support.waiting import until
from workers.cache.caching import CachingBackend
from workers.cache.packs import PackCache
from workers.lazy.groups import grouped
from workers.lazy.image import LazyImage
from workers.lazy.loader import Loader
from workers.lazy.stream import stream

THREADS = 8
ALL_SECONDS = 300


def save(backend: S3Backend, source: Path) -> str:
    size, index = source.stat().st_size, load_index(backend, KEYS, ACCOUNT, None)
    with CheckpointWriter(backend, KEYS, ACCOUNT, None, index, threads=2) as writer:
        writer.add_image("memory", size, None, batches(source, np.arange(size // UNIT)))
        return writer.finish(FACTS).manifest.manifest_id


@contextmanager
def target_at(path: Path, length: int) -> Iterator[int]:
    with path.open("w+b") as out:
        out.truncate(length)
        yield out.fileno()
    path.unlink()


def whole(backend: S3Backend, manifest_id: str, source: Path, target: Path) -> float:
    """Seconds."""
    began = time.perf_counter()
    manifest = load_manifest(backend, KEYS, ACCOUNT, manifest_id)
    with target_at(target, manifest.images["memory"].length_bytes) as fd:
        restore_image(backend, KEYS, ACCOUNT, manifest, "memory", partial(_write, fd), threads=THREADS)
        took = time.perf_counter() - began
        _compare(target, source)
    return took


def lazily(backend: S3Backend, manifest: Manifest, source: Path, work: Path, line: LossyLine, *, lose: bool) -> tuple[float, float]:
    """Seconds that a read waited which was asked for when a third had come, and seconds until all was here."""
    with tempfile.TemporaryDirectory(dir=work) as packs:
        cached = CachingBackend(backend, PackCache(Path(packs)))
        plan = plan_of(cached, manifest)
        groups = grouped(plan.packs, plan.locations, plan.indexes)
        with target_at(work / "lazy", plan.length_bytes) as fd:
            loader = Loader(plan, cached, fd)
            image = LazyImage(groups, loader, fd)
            third = line.passed + _stored(backend) // 3
            began = time.perf_counter()
            streaming = threading.Thread(target=stream, args=(image, groups, loader, plan.first))
            streaming.start()
            until(lambda: line.passed >= third, ALL_SECONDS, "a third is here")
            if lose:
                line.lose()
            asked = time.perf_counter()
            image.read(plan.length_bytes * 7 // 8, UNIT)
            waited = time.perf_counter() - asked
            streaming.join()
            took = time.perf_counter() - began
            _compare(work / "lazy", source)
    return waited, took


def _stored(backend: S3Backend) -> int:
    return sum(listed.object_bytes for listed in backend.list(""))


def _write(fd: int, unit: int, data: memoryview) -> None:
    if os.pwrite(fd, data, unit * UNIT) != len(data):
        raise OSError("short write")


def _compare(made: Path, source: Path) -> None:
    if made.read_bytes() != source.read_bytes():
        raise SystemExit("the restored image differs")


def run(place: S3Place, line: LossyLine, work: Path, mib: int) -> None:
    source, backend = work / "source", open_backend(place)
    memory_like(source, mib)
    manifest_id = save(backend, source)
    sys.stdout.write(f"{mib} MiB, {_stored(backend) / MIB:.0f} MiB stored, load {os.getloadavg()[0]:.1f}\n")
    whole(backend, manifest_id, source, work / "target")
    sound = whole(backend, manifest_id, source, work / "target")
    lost = line.lose()
    sys.stdout.write(f"whole: {sound:.2f} s; {lost} connections lost: {whole(backend, manifest_id, source, work / 'target'):.2f} s\n")
    manifest = load_manifest(backend, KEYS, ACCOUNT, manifest_id)
    for lose in (False, True):
        waited, took = lazily(backend, manifest, source, work, line, lose=lose)
        sys.stdout.write(f"lazy, {'lost when a third had come' if lose else 'sound'}: page after {waited:.2f} s, all {took:.2f} s\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--directory", type=Path, default=None, help="where the files go (default: a temporary directory)")
    options.add_argument("--mib", type=int, default=256)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as name:
        work = Path(name)
        (work / "server").mkdir()
        with seaweed(work / "server", memory_mib=1024) as server, lossy_line(server.endpoint) as line:
            product = S3Place(bucket=server.place().bucket)
            place = replace(
                server.place(f"bench-{os.getpid()}", endpoint=line.endpoint),
                connect_seconds=product.connect_seconds,
                read_seconds=product.read_seconds,
            )
            run(place, line, work, chosen.mib)


if __name__ == "__main__":
    main()
