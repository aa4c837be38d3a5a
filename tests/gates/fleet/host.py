"""One host of a fleet: what `./keepstate host --id` starts, as processes that end or stand still together."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keepstate_site.stack.child import die_with_parent
from keepstate_site.stack.paths import PROJECT
from tests.gates.fleet import processes
from tests.support.waiting import until

STARTS_SECONDS = 180
STOPS_SECONDS = 90


@dataclass
class HostProcess:
    """Start it from the main thread: it ends with the thread that started it."""

    id: str
    root: Path
    environment: Mapping[str, str]
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def is_up(self) -> bool:
        """Its supervisor lives, whether or not it stands still."""
        return self.process is not None and self.process.poll() is None

    def start(self, *, wait: bool = True) -> None:
        """Without `wait` it is on its way: `ready` waits for it."""
        assert not self.is_up, f"{self.id} runs already"
        self._ready_file.unlink(missing_ok=True)
        arguments = ["host", "--id", self.id, "--var", str(self.root), "--ready-file", str(self._ready_file)]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "keepstate_site.stack", *arguments],
                cwd=PROJECT,
                env={**self.environment, "KEEPSTATE_VAR": str(self.root), "KEEPSTATE_HOST_ID": self.id},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        if wait:
            self.ready()

    def ready(self) -> None:
        until(lambda: self._ready_file.exists() or not self.is_up, STARTS_SECONDS, f"{self.id} takes work")
        assert self.is_up, f"{self.id} did not start: {self._log.read_text()[-2000:]}"

    def stop(self) -> None:
        """SIGTERM, in order. Its machines run on."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(STOPS_SECONDS) == 0, self._log.read_text()[-2000:]

    def kill(self) -> int:
        """Loss of power: everything of it at once, its machines too. How many processes it was."""
        killed = processes.kill_all(self.pids)
        if self.process is not None:
            self.process.wait(10)
        return killed

    def pause(self) -> None:
        """Every process of it stands still, its machines too."""
        processes.stop_all(self.pids)

    def resume(self) -> None:
        processes.continue_all(self.pids)

    def kill_workers(self, kind: str) -> int:
        """Its vm or io worker, with the pool's children; the supervisor starts it again. How many processes it was."""
        before = self.worker_pids(kind)
        return processes.kill_all(lambda: [pid for pid in self.worker_pids(kind) if pid in before])

    def kill_gateway(self) -> int:
        before = self.gateway_pids()
        return processes.kill_all(lambda: [pid for pid in self.gateway_pids() if pid in before])

    def pids(self) -> list[int]:
        return processes.of_host(self.root, self.id)

    def worker_pids(self, kind: str) -> list[int]:
        return [pid for pid in self.pids() if {"run_worker", kind} <= set(processes.words(pid))]

    def gateway_pids(self) -> list[int]:
        return [pid for pid in self.pids() if "run_gateway" in processes.words(pid)]

    def machine_pids(self) -> list[int]:
        return processes.machines_of(self.root, self.id)

    @property
    def _ready_file(self) -> Path:
        return self.root / "run" / f"{self.id}.json"

    @property
    def _log(self) -> Path:
        return self.root / "log" / f"host-{self.id}.log"
