"""The end: with the faults over, every session answers rightly, and nothing is left over of what was."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keepstate_site.stack.paths import PROJECT
from tests.bench.fleet.acts import Acts
from tests.bench.fleet.house import House
from tests.bench.fleet.journal import Journal
from tests.bench.fleet.ledger import Known, Ledger
from tests.bench.fleet.operator import settings_of
from tests.bench.soak_footprint import Footprint
from tests.gates.fleet import processes
from tests.support.networks import held_below

_LOOK_SECONDS = 0.5
#: A process that was there all the time may have so much more memory at the end. It is no leak of a few bytes for each operation that this
#: would show, but one of what an operation moves.
GROWTH_MIB = 64

#: What may be in no row once nothing is under way.
ROWS: Mapping[str, str] = {
    "operation that is not over": (
        "SELECT id, kind, state, queue, waits_for FROM sessions_app_operation WHERE state IN ('queued', 'running')"
    ),
    "lease of an operation that is over": (
        "SELECT id, kind FROM sessions_app_operation WHERE state NOT IN ('queued', 'running') AND lease_expires_at IS NOT NULL"
    ),
    "checkpoint that is not finished": (
        "SELECT id, state FROM checkpoints_app_checkpoint WHERE state IN ('capturing', 'uploading', 'erasing')"
    ),
    "pack that is not settled": "SELECT id, state FROM checkpoints_app_pack WHERE state <> 'live'",
    "checkpoint that is corrupt": "SELECT id FROM checkpoints_app_checkpoint WHERE state = 'corrupt'",
    "operation that published twice": (
        "SELECT operation_id FROM checkpoints_app_checkpoint WHERE state = 'published' AND operation_id NOT LIKE '' "
        "GROUP BY operation_id, session_id HAVING count(*) > 1"
    ),
}
#: And once every session was deleted.
ROWS_OF_NONE: Mapping[str, str] = {
    "session": "SELECT id, runtime_state FROM sessions_app_session WHERE runtime_state <> 'deleted'",
    "checkpoint with content": "SELECT id, state FROM checkpoints_app_checkpoint WHERE state NOT IN ('erased', 'failed')",
    "pack": "SELECT id, state FROM checkpoints_app_pack",
    "edge": "SELECT id FROM checkpoints_app_packedge",
}


@dataclass
class Judge:
    """`left`: how many of each kind were left over, once with the sessions there and once when all were deleted; `seen`: what there was to
    look at, so that a judge that saw nothing is found.
    """

    house: House
    journal: Journal
    ledger: Ledger
    bound_seconds: float
    left: dict[str, dict[str, int]] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)

    def everything_answers(self, acts: Acts) -> None:
        """Every session that was not deleted; and there is no other."""
        deadline = time.monotonic() + self.bound_seconds
        for known in self.ledger.living():
            self._answers(acts, known, deadline)
        self.seen |= {"sessions": len(self.ledger.living()), "machines": len(self._machines()), "files": len(self._files())}
        there = {row[0] for row in self.house.rows("SELECT id FROM sessions_app_session WHERE runtime_state <> 'deleted'")}
        known_ids = {known.id for known in self.ledger.living()}
        if there != known_ids:
            self.journal.finding("not the sessions that must be there", strangers=there - known_ids, lost=known_ids - there)

    def _answers(self, acts: Acts, known: Known, deadline: float) -> None:
        with known.lock:
            if not known.begun:  # its start came to nothing, and so did its deletion
                acts.delete(known)
                return
            while not acts.look(known):
                if time.monotonic() > deadline:
                    self.journal.finding("a session does not answer rightly, and no fault reigns", session=known.id)
                    return
                time.sleep(_LOOK_SECONDS)

    def nothing_left(self, *, sessions: bool) -> None:
        """Wait until nothing is there that should not be; what still is at the bound is a finding. `sessions`: some run on."""
        deadline, when = time.monotonic() + self.bound_seconds, "sessions there" if sessions else "all deleted"
        while True:
            left = self._left(sessions=sessions)
            self.left[when] = {what: len(which) for what, which in left.items()}
            if not any(left.values()):
                self.journal.write("nothing is left over", sessions=sessions)
                return
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK_SECONDS)
        for what, which in left.items():
            if which:
                self.journal.finding(f"left over: {what}", which=which)

    def _left(self, *, sessions: bool) -> dict[str, list[Any]]:
        queries = ROWS if sessions else {**ROWS, **ROWS_OF_NONE}
        left: dict[str, list[Any]] = {f"row: {what}": self.house.rows(query) for what, query in queries.items()}
        running = self._running()
        left["machine without a session"] = [words for name, words in self._machines() if name not in running]
        left["file"] = [str(path) for path in self._files() if path.name not in running and path.parent.name != "staging"]
        left["file of a save"] = [str(path) for path in self._files() if path.parent.name == "staging"]
        left["network"] = [str(path) for path in held_below(self.house.fleet.root) if path.name not in running]
        left["process that nobody supervises"] = self._orphaned()
        return left

    def _running(self) -> set[str]:
        """The names of the runtime directories that must be there."""
        query = "SELECT id, epoch FROM sessions_app_session WHERE runtime_state IN ('running', 'checkpointing')"
        return {f"{session}.{epoch}" for session, epoch in self.house.rows(query)}

    def _machines(self) -> list[tuple[str, str]]:
        """(runtime directory's name, process) of every hypervisor."""
        found = []
        for host in self.house.fleet.hosts.values():
            for pid in host.machine_pids():
                try:
                    found.append((Path(os.readlink(f"/proc/{pid}/cwd")).name, f"{host.id} {pid} {' '.join(processes.words(pid)[:1])}"))
                except OSError:
                    continue
        return found

    def _files(self) -> list[Path]:
        return [path for part in ("machines", "net", "staging", "lazy") for path in (self.house.fleet.root / "host").glob(f"*/{part}/*")]

    def _orphaned(self) -> list[str]:
        """Processes of the stack, hypervisors apart, that do not descend from us: what started them is gone and they are not."""
        ours = set(processes.of_stack(self.house.fleet.root))
        machines = {pid for host in self.house.fleet.hosts.values() for pid in host.machine_pids()}
        return [f"{pid} {' '.join(processes.words(pid)[:6])}" for pid in ours - machines if not _descends(pid, os.getpid())]

    def store(self, *, empty: bool) -> None:
        """No object that no row names, no row without its object; `empty`: of no session at all, so only the account's key is there."""
        env = settings_of(self.house.fleet.environment, self.house.fleet.root)
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.fleet.inside"],
            cwd=PROJECT,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            self.journal.finding("the store could not be looked at", said=done.stderr[-2000:])
            return
        seen = json.loads(done.stdout.splitlines()[-1])
        self.journal.write("store", objects=len(seen["keys"]), **{name: seen[name] for name in ("nobodys", "missing")})
        when = self.left.setdefault("all deleted" if empty else "sessions there", {})
        when |= {f"object of the store: {what}": len(seen[what]) for what in ("nobodys", "missing")}
        self.seen["objects, all deleted" if empty else "objects"] = len(seen["keys"])
        if not seen["keys"]:
            self.journal.finding("the store tells of no object at all: nothing was judged")
        for what in ("nobodys", "missing"):
            if seen[what]:
                self.journal.finding(f"left over in the store: {what}", which=seen[what])
        if empty:
            kept = [key for key in seen["keys"] if "/packs/" in key or "/manifests/" in key or "/erased/" in key]
            when["object of the store: of a deleted session"] = len(kept)
            if kept:
                self.journal.finding("objects of deleted sessions are in the store", which=kept)

    def growth(self, warm: Footprint, end: Footprint) -> list[float]:
        """MiB that each process which was there all the time has grown by."""
        stayed = [pid for pid in end.resident if pid in warm.resident and warm.names[pid] == end.names[pid]]
        grown = {pid: (end.resident[pid] - warm.resident[pid]) / 1024 for pid in stayed if "qemu" not in end.names[pid]}
        for pid, mib in grown.items():
            if mib > GROWTH_MIB:
                self.journal.finding(f"a process has grown by {mib:.0f} MiB", process=end.names[pid])
        return list(grown.values())


def _descends(pid: int, ancestor: int) -> bool:
    """Also true of one that has just ended."""
    while pid > 1 and pid != ancestor:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return True
    return pid == ancestor
