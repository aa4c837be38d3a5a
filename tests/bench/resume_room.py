"""Where resumes are measured: a stack whose store is an S3 server on loopback, and a machine of 2 GiB of which half a GiB is live."""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepstate_site.demo.agent import PROGRAM
from tests.bench.agent_machine import report_after
from tests.gates.room import Room, Subject, room
from tests.support.seaweed import BUCKET, seaweed
from tests.support.waiting import until

MEMORY_MIB = 2048
BALLAST_MIB = 400

#: An agent's working memory: words, bytes that do not compress, and gaps, in blocks that are all different.
BALLAST = f"""
import os, random, time
random.seed(7)
words = [bytes(random.choices(b"abcdefghij_(),.:=", k=random.randint(2, 9))) for _ in range(3000)]
pool = b" ".join(random.choices(words, k=400000))
keep = []
for block in range({BALLAST_MIB}):
    at = random.randrange(len(pool) - 700 * 1024)
    text, step = bytearray(pool[at:at + 600 * 1024]), random.randrange(200, 900)
    text[::step] = os.urandom(len(text[::step]))
    keep.append(text + os.urandom(300 * 1024) + bytes(124 * 1024))
open("/run/ballast", "w").write("ready")
while True:
    time.sleep(60)
"""


@dataclass(frozen=True)
class Condition:
    """Where the images come from, and how memory comes back (None: it is there)."""

    origin: str
    mode: str | None
    images_from: str
    budget: float

    @property
    def name(self) -> str:
        return self.origin if self.mode is None else f"{self.origin}, {self.mode}"


HOT = Condition("hot", None, "cached", 0.3)
#: In turn; what is warm has the packs that the resume before it, whole from the store, has left here.
CONDITIONS = (
    HOT,
    Condition("cold", "lazy", "store", 1.0),
    Condition("cold", "whole", "store", 2.0),
    Condition("warm", "whole", "host", 1.0),
    Condition("warm", "lazy", "host", 0.6),
)


@contextmanager
def resume_room() -> Iterator[Room]:
    with tempfile.TemporaryDirectory(prefix="keepstate-bench-") as scratch:
        directory = Path(scratch)
        (directory / "s3").mkdir()
        with seaweed(directory / "s3", disk_mib=8192, memory_mib=1024) as server:
            environment = {
                "CHECKPOINT_STORE_URL": f"s3://{BUCKET}/bench?endpoint={server.endpoint}",
                "AWS_ACCESS_KEY_ID": server.credentials.access_key,
                "AWS_SECRET_ACCESS_KEY": server.credentials.secret_key,
            }
            with room(directory, environment=environment) as opened:
                yield opened


def agent(opened: Room, ballast: str = BALLAST) -> Subject:
    """A machine with the demo's agent at work and its memory filled."""
    subject = Subject(opened, opened.client.do("POST", "/api/sessions", {"Image": "debian-python", "Memory": MEMORY_MIB})["id"])
    for program in (PROGRAM, ballast):
        shell = 'python3 -c "$0" >/dev/null 2>&1 </dev/null &'
        opened.client.do("POST", f"/api/sessions/{subject.id}/exec", {"Argv": ["/bin/sh", "-c", shell, program], "Timeout": 20})
    until(lambda: "ready" in subject.exec("cat /run/ballast 2>/dev/null || true")["stdout"], 600, "the machine's memory is filled")
    report_after(subject, 0)
    return subject


def live_mib(opened: Room) -> int:
    """Of the newest memory image on the host."""
    images = [path for path in (opened.root / "host").glob("*/cache/memory/*") if path.suffix == "" and not path.name.startswith("tmp-")]
    return max(images, key=lambda path: path.stat().st_mtime).stat().st_blocks * 512 >> 20


def prepare(subject: Subject, condition: Condition) -> None:
    """What a host in that condition has of this machine, which is dead; the images under others stay."""
    host = next((subject.room.root / "host").iterdir())
    if condition.origin == "hot":
        return
    others = [note for note in host.glob("machines/*/keepstate.json") if not note.parent.name.startswith(subject.id)]
    kept = {name for note in others for name in json.loads(note.read_text()).get("images", [])}
    for image in [*host.glob("cache/memory/*"), *host.glob("cache/disk/*"), *host.glob("cache/devices/*")]:
        if image.name.removesuffix(".sum") not in kept:
            image.unlink(missing_ok=True)
    if condition.origin == "cold":
        for file in [*host.glob("packs/accounts/*/packs/*"), *host.glob("cache/touched/*")]:
            file.unlink(missing_ok=True)


def timed_resume(subject: Subject, condition: Condition) -> tuple[float, dict[str, Any]]:
    """Seconds from the request to the answer, and the operation's response. SystemExit if it came from elsewhere."""
    began = time.perf_counter()
    body = {"Mode": condition.mode} if condition.mode else {}
    answer = subject.room.client.do("POST", f"/api/sessions/{subject.id}/resume", body)
    seconds = time.perf_counter() - began
    if answer["images_from"] != condition.images_from or answer["verifying"] != (condition.mode == "lazy"):
        raise SystemExit(f"a resume that should have been {condition.name} was {answer}")
    return seconds, answer


def seconds_until_verified(subject: Subject, began: float) -> float:
    until(lambda: not subject.room.client.get(f"/api/v2/sessions/{subject.id}")["verifying"], 120, "all is verified")
    return time.perf_counter() - began
