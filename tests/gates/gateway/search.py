"""Words looked for everywhere that a stack keeps or shows anything: a machine's memory, files, stored objects, environments, the broker."""

import base64
import json
import os
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import redis

from keepstate_site.stack import home
from keepstate_site.stack.paths import PROJECT, prepare

_PIECE = 16 << 20
_BASE64 = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")

Hits = dict[str, list[str]]


def in_memory(pid: int, words: Sequence[str]) -> tuple[int, Hits]:
    """Of a process, a machine's memory with it: bytes that were read, and by word the mappings that have it."""
    read, hits = 0, _none(words)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *_ = line.split()
            if "r" not in rights or "[v" in line:  # the kernel's own pages
                continue
            start, end = (int(word, 16) for word in span.split("-"))
            read += _search(memory.fileno(), start, end, span, hits)
    return read, hits


def in_files(roots: Sequence[Path], words: Sequence[str]) -> tuple[int, Hits]:
    """By content or by name. Holes are not read."""
    read, hits = 0, _none(words)
    for path in (path for root in roots for path in root.rglob("*")):
        for word in words:
            if word in str(path):
                hits[word].append(str(path))
        if not path.is_file() or path.is_symlink():
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # it is gone meanwhile
            continue
        try:
            for start, end in _data(descriptor):
                read += _search(descriptor, start, end, str(path), hits)
        finally:
            os.close(descriptor)
    return read, hits


def in_environments(root: Path, words: Sequence[str]) -> tuple[int, Hits]:
    """Of every process of the stack at that root, its command line with it: how many those are, and by word which have it."""
    count, hits = 0, _none(words)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            shown = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue
        if f"KEEPSTATE_VAR={root}".encode() in shown:
            count += 1
            for word in words:
                if word.encode() in shown:
                    hits[word].append(process.name)
    return count, hits


def in_stored_objects(root: Path, words: Sequence[str]) -> dict[str, Any]:
    """Once they are opened (tests.gates.gateway.opened)."""
    argv = [sys.executable, "-m", "tests.gates.gateway.opened", *words]
    own = {"KEEPSTATE_VAR": str(root), "DATABASE_URL": _home(root).database_url, "CHECKPOINT_STORE_URL": (root / "store").as_uri()}
    environment = {**os.environ, **own, "DJANGO_SETTINGS_MODULE": "keepstate_site.settings"}
    done = subprocess.run(argv, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Broker:
    """All that is said to the stack's Redis from here on, messages of tasks among it, and all that it keeps."""

    def __init__(self, url: str) -> None:
        self.url, self.said = url, list[str]()
        self._end = uuid.uuid4().hex

    def __enter__(self) -> Self:
        self._client = redis.Redis.from_url(self.url)
        self._monitor = self._client.monitor()
        self._monitor.__enter__()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.echo(self._end)
        self._thread.join(10)
        self._client.close()

    def _listen(self) -> None:
        for told in self._monitor.listen():
            if self._end in told["command"]:
                return
            self.said += [told["command"], *_decoded(told["command"])]

    def hits(self, words: Sequence[str]) -> Hits:
        with redis.Redis.from_url(self.url) as client:
            kept = [(str(key), client.dump(key) or b"") for key in client.scan_iter()]
        said = {word: [line[:60] for line in self.said if word in line] for word in words}
        return {word: [*said[word], *(key for key, value in kept if word in key or word.encode() in value)] for word in words}


def _decoded(command: str) -> list[str]:
    """A task's message has its arguments in base 64."""
    found = (match.group() for match in _BASE64.finditer(command))
    return [base64.b64decode(word).decode("latin-1") for word in found if len(word) % 4 == 0]


def broker(root: Path) -> Broker:
    return Broker(_home(root).redis_url)


def directories(root: Path) -> list[Path]:
    """All that a stack keeps: its root, and its database and broker where they lie elsewhere. Images of guests are older than any key."""
    data = _home(root).data
    return [root] if data.is_relative_to(root) else [root, data]


def _home(root: Path) -> home.Home:
    """Of the stack's own database and broker, whatever this process's environment names."""
    return home.locate(prepare(root), home.service_user())


def _none(words: Sequence[str]) -> Hits:
    return {word: [] for word in words}


def _data(descriptor: int) -> Iterator[tuple[int, int]]:
    at = 0
    while True:
        try:
            at = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(descriptor, at, os.SEEK_HOLE)
        yield at, end
        at = end


def _search(descriptor: int, start: int, end: int, name: str, hits: Hits) -> int:
    """Pieces overlap by the longest word."""
    overlap = max(len(word) for word in hits)
    for at in range(start, end, _PIECE):
        try:
            piece = os.pread(descriptor, min(_PIECE + overlap, end - at), at)
        except OSError:
            return at - start  # a mapping that cannot be read, or is gone
        for word, found in hits.items():
            if word.encode() in piece and name not in found:
                found.append(name)
    return end - start
