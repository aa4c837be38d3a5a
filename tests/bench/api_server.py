"""The web process as a stack starts it, on the bench's database; and one client of it on a connection that stays open."""

import http.client
import json
import os
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keepstate_site.stack import processes
from keepstate_site.stack.paths import PROJECT

READY_SECONDS = 60.0


@contextmanager
def serving(log: Path, **environment: str) -> Iterator[str]:
    """Its URL, once it answers."""
    listener = processes.listen(0)
    url = processes.url(listener)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "keepstate_site.serve", str(listener.fileno())],
            cwd=PROJECT,
            env={**os.environ, "KEEPSTATE_ROLE": "web", **environment},
            pass_fds=(listener.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        listener.close()
        try:
            _await(url, process, log)
            yield url
        finally:
            process.terminate()
            process.wait(60)


def _await(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if Caller(url).get("/healthz")[0] == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"the web process does not answer:\n{log.read_text()[-3000:]}")


@dataclass
class Caller:
    url: str
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.url).netloc, timeout=60)

    def get(self, path: str) -> tuple[int, bytes]:
        self._connection.request("GET", path, headers=self.headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def data(self, path: str) -> Any:
        """What a v2 route answers. RuntimeError for a refusal: a bench that measures refusals measures nothing."""
        status, body = self.get(path)
        if status != 200:
            raise RuntimeError(f"{path}: {status} {body[:500]!r}")
        return json.loads(body)["data"]

    def timed(self, path: str) -> float:
        """Milliseconds from the request to the last byte of its answer."""
        began = time.perf_counter()
        status, body = self.get(path)
        took = (time.perf_counter() - began) * 1000
        if status != 200:
            raise RuntimeError(f"{path}: {status} {body[:500]!r}")
        return took
