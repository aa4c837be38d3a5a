"""What the parts of the demo share: the running stack, the session, and how a machine is saved and killed."""

import time
from dataclasses import dataclass, field

from keepstate_site.client import Client
from keepstate_site.demo.agent import Simulation
from keepstate_site.demo.process import kill_machine
from keepstate_site.demo.report import Report
from keepstate_site.stack.client import RunningStack


@dataclass
class Demo:
    client: Client
    stack: RunningStack
    report: Report
    session: str = ""
    nonce: str = ""
    note_digest: str = ""
    checkpoints: list[str] = field(default_factory=list)
    simulation: Simulation = field(default_factory=Simulation)


def save(demo: Demo, number: int) -> None:
    began = time.monotonic()
    saved = demo.client.do("POST", f"/api/sessions/{demo.session}/checkpoint", {"Stop": False, "Reason": f"demo {number}"})
    seconds = time.monotonic() - began
    demo.checkpoints.append(saved["checkpoint_id"])
    figures = {name: saved[name] for name in ("pause_seconds", "written_bytes", "stored_bytes")}
    demo.report.saves.append({**figures, "published_seconds": round(seconds, 3)})
    demo.report.step(f"save {number} is published; the machine stood still for {saved['pause_seconds'] * 1000:.0f} ms", seconds)


def kill(demo: Demo) -> None:
    pid = kill_machine(demo.stack.root, demo.session)
    demo.report.step(f"its QEMU process {pid} is killed with SIGKILL")
