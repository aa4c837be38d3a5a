"""The rows of `./keepstate bench store` about an image that is larger than the memory a save may take."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.bench.report import Row, row
from tests.bench.watched import Watched, watch

PROJECT = Path(__file__).resolve().parents[2]
IMAGE_GIB, DATA_GIB, WRITTEN_GIB = 256, 8.0, 0.5  # the image is the largest that there may be


def rows(scratch: Path) -> list[Row]:
    store = str(scratch / "large")
    first, saved = _run("save", store, str(IMAGE_GIB), str(DATA_GIB), "", "1")
    second, increment = _run("save", store, str(IMAGE_GIB), str(WRITTEN_GIB), saved["manifest"], "2")
    third, restored = _run("restore", store, increment["manifest"])
    if restored["restored"] < DATA_GIB * (1 << 30):
        raise SystemExit("the large image was not restored whole: its figures are worth nothing")
    name = f"image of {IMAGE_GIB} GiB with {DATA_GIB:g} GiB of data"
    return [
        row(f"{name}: peak memory", "MiB", [done.peak_mib for done in (first, second, third)], budget=256, at="max"),
        row(f"{name}: first save", "s", [first.seconds]),
        row(f"{name}: increment of {WRITTEN_GIB:g} GiB", "s", [second.seconds]),
        row(f"{name}: restore", "s", [third.seconds]),
    ]


def _run(*arguments: str) -> tuple[Watched, dict[str, Any]]:
    argv = [sys.executable, "-m", "tests.bench.ours_large", *arguments]
    done = watch(argv, directory=PROJECT, environment={"PYTHONPATH": str(PROJECT)}, cores=2)
    return done, json.loads(done.output)
