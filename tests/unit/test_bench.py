"""The benches' own instruments."""

import json
import sys
from pathlib import Path

import pytest

from tests.bench import control
from tests.bench.report import publish, row
from tests.bench.watched import watch

GROWS = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = bytearray(200 << 20); sum(x[::4096])'])"


def test_the_memory_of_a_whole_process_tree_is_seen(tmp_path: Path) -> None:
    seen = watch([sys.executable, "-c", GROWS], directory=tmp_path, environment={}, cores=1)
    assert seen.peak_mib > 200
    assert seen.seconds >= seen.cpu_seconds * 0.5


def test_a_program_that_fails_is_told_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no such thing"):
        watch([sys.executable, "-c", "raise SystemExit('no such thing')"], directory=tmp_path, environment={}, cores=2)


def test_a_budget_is_compared_with_the_quantile_it_is_for() -> None:
    values = [1.0] * 19 + [9.0]
    assert row("a", "s", values, budget=1.0, at="p50").within
    assert row("a", "s", values, budget=1.0, at="p95").within
    assert not row("a", "s", values, budget=1.0, at="max").within


def test_a_bench_that_ended_early_writes_what_it_has_and_null_for_the_rest(tmp_path: Path) -> None:
    bench = control.Bench([10, 100], None)
    bench.found[10].dispatch["save"].append(3.0)
    file = tmp_path / "control.json"
    assert publish("control", "", bench.rows(), file, **bench.details()) == 0
    told = json.loads(file.read_text())
    rows = {one["name"]: (one["n"], one["p50"], one["within"]) for one in told["rows"]}
    assert rows["save, dispatch, 10 sessions"] == (1, 3.0, None)
    assert rows["save, dispatch, 100 sessions"] == (0, None, None)
    assert rows["save, dispatch, largest against smallest"] == (0, None, None)
    assert told["ended"], "it says that it is not whole"
