"""The form of every benchmark: rows of quantiles with machine and method, printed as a table and written with --json."""

import argparse
import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """Quantiles of n measurements, None where n is 0. `budget` and `within` are None where there is no budget, or nothing to compare."""

    name: str
    unit: str
    n: int
    p50: float | None
    p95: float | None
    max: float | None
    budget: float | None = None
    within: bool | None = None
    beside: dict[str, float] = field(default_factory=dict)


def row(name: str, unit: str, values: Sequence[float], *, budget: float | None = None, at: str = "p95", **beside: float) -> Row:
    """The budget is compared with the quantile `at`. Raises ValueError for no values: an empty row judges nothing."""
    if not values:
        raise ValueError(f"{name}: nothing was measured")
    figures = {"p50": quantile(values, 0.5), "p95": quantile(values, 0.95), "max": max(values)}
    rounded = {name: round(value, 4) for name, value in figures.items()}
    within = None if budget is None else figures[at] <= budget
    return Row(name, unit, len(values), rounded["p50"], rounded["p95"], rounded["max"], budget, within, beside)


def rate_row(name: str, unit: str, values: Sequence[float], *, least: float, **beside: float) -> Row:
    """Of a rate, which is good where it is large: its median is compared with the least that it may be."""
    made = row(name, unit, values, at="p50", **beside)
    return replace(made, budget=least, within=quantile(values, 0.5) >= least)


def unmeasured(name: str, unit: str, *, budget: float | None = None) -> Row:
    """What was to be measured, in a run that ended before it."""
    return Row(name, unit, 0, None, None, None, budget)


def quantile(values: Sequence[float], share: float) -> float:
    """The nearest-rank quantile: a value that was measured, never one between two."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def arguments(description: str, images: Sequence[str] = (), *, plots: bool = False) -> argparse.Namespace:
    """`images`: the guest images that this bench can measure, its own first. `plots`: whether it can draw its distributions."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, help="measurements of each row")
    if images:
        parser.add_argument("--image", default=images[0], choices=images, help=f"the machine's guest image (default: {images[0]})")
    if plots:
        parser.add_argument("--plot", type=Path, help="write the distributions to this file, as an SVG picture")
    return parser.parse_args()


def parser(description: str, **counts: tuple[str, int]) -> argparse.ArgumentParser:
    """For a bench that counts something of its own: `counts` are its options' names, each with what is counted and how many by default."""
    made = argparse.ArgumentParser(description=description.replace("%", "%%"))
    made.add_argument("--json", type=Path, help="write the figures to this file")
    for name, (what, default) in counts.items():
        made.add_argument(f"--{name}", type=int, default=default, help=f"{what} (default: {default})")
    return made


def publish(bench: str, method: str, rows: Sequence[Row], file: Path | None, **more: object) -> int:
    """Print, write (`more` too), and return 1 if a budget was missed."""
    print(f"\n{bench}: {method}")
    print(f"{'':58}{'n':>4}{'p50':>10}{'p95':>10}{'max':>10}  unit  budget")
    for one in rows:
        verdict = "" if one.budget is None else f"{one.budget:g} {_VERDICTS[one.within]}"
        figures = "".join(f"{'-':>10}" if value is None else f"{value:10.4g}" for value in (one.p50, one.p95, one.max))
        print(f"{one.name:58}{one.n:4}{figures}  {one.unit:4}  {verdict}")
    if file is not None:
        write(bench, method, rows, file, **more)
    return int(any(one.within is False for one in rows))


_VERDICTS = {True: "ok", False: "MISSED", None: "not measured"}


def write(bench: str, method: str, rows: Sequence[Row], file: Path, **more: object) -> None:
    """Whole or not at all: a bench may write again and again while it goes on."""
    whole = {"bench": bench, "date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(), "method": method}
    draft = file.with_name(f"{file.name}.new")
    draft.write_text(json.dumps({**whole, "rows": [asdict(one) for one in rows], **more}, indent=2) + "\n")
    draft.replace(file)


def machine() -> dict[str, object]:
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return {
        "cpu": model[1] if model else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "qemu": _first_line(["qemu-system-x86_64", "--version"]),
        "python": sys.version.split()[0],
    }


def _first_line(argv: list[str]) -> str | None:
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False).stdout.splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return None
