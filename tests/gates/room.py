"""A whole stack to prove gates in, and a session in it whose program can be told from any other."""

import hashlib
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepstate_site.client import Client, Refused
from keepstate_site.demo.process import machine_pids
from keepstate_site.stack.client import running
from tests.gates.gateway.beside import Beside, provider
from tests.sabotage.mechanisms import MECHANISMS
from tests.support.networks import remove_networks
from tests.support.waiting import until, until_gone

IMAGES = Path(os.environ.get("KEEPSTATE_IMAGES") or Path(__file__).resolve().parents[2] / "var" / "images")

#: One copy of the pages' files for every stack of a run, since making it takes two seconds of processor time.
STATIC = Path(os.environ.get("KEEPSTATE_VAR") or IMAGES.parent) / "static"

#: A program for the smallest guest: a nonce that only its memory holds, and a count. It starts two programs each time, which keep an
#: emulated processor busy: five times in a second is often enough to see that it goes on.
COUNTER = (
    "nonce=$(head -c 8 /dev/urandom | od -An -tx1 | tr -d ' \\n'); n=0; "
    'while :; do n=$((n+1)); echo "$n $nonce" > /run/status.new; mv /run/status.new /run/status; sleep 0.2; done'
)

PROVIDERS = ("KEEPSTATE_ANTHROPIC_URL", "KEEPSTATE_OPENAI_URL", "KEEPSTATE_GEMINI_URL")


@dataclass
class Room:
    client: Client
    root: Path
    crash_file: Path
    programs: Path  # a directory that the workers' PATH begins with; empty at the start
    provider: Beside  # where its model calls go
    switch: Path | None = None  # names the mechanism that is off, in a stack that has the switch

    def start(self, image: str = "tiny", **wanted: Any) -> "Subject":
        created = self.client.do("POST", "/api/sessions", {"Image": image, **wanted})
        subject = Subject(self, created["id"])
        subject.exec(f"({COUNTER}) >/dev/null 2>&1 </dev/null &")
        until(lambda: subject.status()[0] > 0, 30, "the guest's program counts")
        return subject

    @contextmanager
    def without(self, mechanism: str, *, keep: bool = False) -> Iterator["Room"]:
        """The mechanism (tests/sabotage) is off; at the end it is on, and no session that came meanwhile is left, unless to be kept."""
        assert self.switch is not None
        assert mechanism in MECHANISMS
        before = _sessions(self)
        replaced(self.switch, mechanism)
        try:
            yield self
        finally:
            replaced(self.switch, "")
            if not keep:
                _delete(self, _sessions(self) - before)

    def crash_at(self, step: str) -> None:
        """The next worker that reaches the step kills itself there."""
        replaced(self.crash_file, step)

    def crashed(self) -> bool:
        return not self.crash_file.exists()

    def worker_pids(self, kind: str) -> list[int]:
        """Every process of that worker of this stack."""
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if self._is_worker(pid, kind)]

    def kill_workers(self, kind: str) -> int:
        killed = self.worker_pids(kind)
        for pid in killed:
            _kill(pid)
        for pid in killed:
            until_gone(pid, 60)
        return len(killed)

    def kill_machines(self) -> None:
        """Every machine of every session, those that earlier gates left running too: no directory names them once the host's are gone."""
        pids = [
            pid for machines in (self.root / "host").glob("*/machines/*") for pid in machine_pids(self.root, machines.name.split(".")[0])
        ]
        for pid in pids:
            _kill(pid)
        for pid in pids:
            until_gone(pid, 60)

    def forget_cache(self) -> None:
        """As another host would be: nothing assembled, and no pack of a store elsewhere here."""
        for file in [*(self.root / "host").glob("*/cache/*/*"), *(self.root / "host").glob("*/packs/accounts/*/packs/*")]:
            file.unlink(missing_ok=True)

    def objects(self) -> dict[Path, str]:
        """Every stored object with its digest."""
        return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in (self.root / "store").rglob("*") if path.is_file()}

    def operation(self, operation_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/api/operations/{operation_id}")
        return found

    def _is_worker(self, pid: int, kind: str) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            mine = f"KEEPSTATE_VAR={self.root}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return mine and b"run_worker" in words and kind.encode() in words


@dataclass
class Subject:
    """A session under proof."""

    room: Room
    id: str

    def exec(self, command: str) -> dict[str, Any]:
        return self.room.client.exec(self.id, command)

    def status(self) -> tuple[int, str]:
        """(count, nonce) as the guest's program wrote them last; (0, "") before its first."""
        words = self.exec("cat /run/status")["stdout"].split()
        return (int(words[0]), words[1]) if len(words) == 2 else (0, "")

    def save(self, *, stop: bool = False) -> dict[str, Any]:
        return self.room.client.do("POST", f"/api/sessions/{self.id}/checkpoint", {"Stop": stop})

    def resume(self, checkpoint: str | None = None) -> dict[str, Any]:
        return self.room.client.do("POST", f"/api/sessions/{self.id}/resume", {"Checkpoint": checkpoint} if checkpoint else {})

    def ask(self, path: str, body: dict[str, Any]) -> str:
        """Ask without waiting: the operation's id."""
        _, answer = self.room.client.call("POST", f"/api/sessions/{self.id}/{path}", body)
        return str(answer["operation_id"])

    def ended(self, operation_id: str) -> dict[str, Any]:
        """The operation once it has ended, however it did."""
        try:
            self.room.client.wait(operation_id)
        except Refused:
            pass
        return self.room.operation(operation_id)

    def pids(self) -> list[int]:
        return machine_pids(self.room.root, self.id)

    def kill(self) -> int:
        """SIGKILL the hypervisor. There must be exactly one: a gate judges no empty evidence."""
        (pid,) = self.pids()
        os.kill(pid, signal.SIGKILL)
        until_gone(pid, 60)
        return pid

    def state(self) -> str:
        return str(self.room.client.get(f"/api/v2/sessions/{self.id}")["runtime_state"])

    def checkpoints(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.room.client.get(f"/api/v2/sessions/{self.id}/checkpoints")["items"]
        return found

    def delete(self) -> None:
        self.room.client.do("DELETE", f"/api/sessions/{self.id}?force=1")


@contextmanager
def room(root: Path, *, switch: Path | None = None, environment: Mapping[str, str] | None = None) -> Iterator[Room]:
    """A stack of its own below `root`; with `switch`, one whose mechanisms can be switched off by that file. `environment` is added to
    its own.
    """
    crash_file, programs = root / "crash", root / "bin"
    env = {**stack_environment(root, switch), **(environment or {})}
    with networks_removed(root), provider() as beside, running(root / "var", env=env | dict.fromkeys(PROVIDERS, beside.url)) as stack:
        opened = Room(Client(stack.url, stack.token, poll_share=0.25), stack.root, crash_file, programs, beside, switch)
        try:
            yield opened
        finally:
            _delete(opened, _sessions(opened))


def stack_environment(root: Path, switch: Path | None) -> dict[str, str]:
    """Short leases, quick sweeps, no bound on requests, servers of its own. Makes the directory `bin`, and the switch."""
    programs = root / "bin"
    programs.mkdir(exist_ok=True)
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "KEEPSTATE_IMAGES": str(IMAGES),
        "KEEPSTATE_STATIC": str(STATIC),
        "KEEPSTATE_LEASE_SECONDS": "6",  # a worker that was not heard for four of them has lost its work, and machines of tests stall
        "KEEPSTATE_SWEEP_SECONDS": "3",  # six tasks each, which at every second keep an eighth of a processor busy
        "KEEPSTATE_RATE_TOKEN": "1000000",  # one token asks for everything here, as fast as it can
        "KEEPSTATE_RATE_ACCOUNT": "1000000",
        "KEEPSTATE_CRASH_FILE": str(root / "crash"),
        **dict.fromkeys(("DATABASE_URL", "REDIS_URL", "CHECKPOINT_STORE_URL"), ""),  # its own, not those of the test run
    }
    if switch:
        switch.touch()
        env |= {"DJANGO_SETTINGS_MODULE": "tests.sabotage.settings", "KEEPSTATE_SABOTAGE_FILE": str(switch)}
    return env


@contextmanager
def networks_removed(root: Path) -> Iterator[None]:
    """Once the stack has ended, and its sweep with it."""
    try:
        yield
    finally:
        remove_networks(root)


def replaced(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)


def _sessions(opened: Room) -> set[str]:
    return {row["id"] for row in opened.client.get("/api/v2/sessions?source=fleet&limit=200")["items"]}


def _delete(opened: Room, sessions: set[str]) -> None:
    """A stack that stops leaves its machines running, as it should; a test's must go."""
    for session in sessions:
        try:
            Subject(opened, session).delete()
        except (Refused, TimeoutError):
            for pid in machine_pids(opened.root, session):
                _kill(pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
