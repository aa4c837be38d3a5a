"""The release before this one, from the clone's own history, as a stack that runs."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from keepstate_site.stack.child import die_with_parent
from keepstate_site.stack.client import RunningStack
from keepstate_site.stack.paths import PROJECT
from tests import regressions
from tests.support.waiting import until

COMMIT: str = json.loads((Path(regressions.__file__).parent / "released" / "newest.json").read_text())["commit"]
START_SECONDS, STOP_SECONDS = 600, 150


def tree(directory: Path) -> Path:
    """The release's files. A clone without its history fails the test: what is not there is not proved."""
    archive = subprocess.run(["git", "-C", str(PROJECT), "archive", COMMIT], capture_output=True, check=False, timeout=60)
    if archive.returncode:
        pytest.fail(f"The release {COMMIT} is not in this clone's history (git fetch --unshallow): {archive.stderr.decode()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(directory, filter="data")
    return directory


@contextmanager
def stack(release: Path, root: Path, env: Mapping[str, str]) -> Iterator[RunningStack]:
    """`up` of that tree on `root`. At the end it is stopped in order; its machines run on."""
    ready, log = root.with_name("ready.json"), root.with_name("released.log")
    argv = [sys.executable, "-m", "keepstate_site.stack", "up", "--var", str(root), "--port", "0", "--ready-file", str(ready)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            cwd=release,
            env={**os.environ, **env, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent(signal.SIGTERM),
        )
    try:
        until(lambda: ready.exists() or process.poll() is not None, START_SECONDS, "the release's stack serves")
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
        facts = json.loads(ready.read_text())
        yield RunningStack(facts["url"], facts["token"], facts["account_id"], facts["pid"], root, "")
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
