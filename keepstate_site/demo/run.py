"""`./keepstate demo`: the main job on real parts, from nothing, each claim checked.

A machine with an agent in it is saved live, loses its process to SIGKILL, and resumes mid-work; three times. Then one stored byte is
flipped: the checkpoint that needs it is refused, and the one before it still resumes.
"""

import hashlib
import os
import secrets
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from keepstate_site.client import Client, Refused
from keepstate_site.demo.agent import LOG, PROGRAM, STATUS, Simulation
from keepstate_site.demo.report import ClaimFailed, Report
from keepstate_site.stack.client import RunningStack, running

IMAGE, MEMORY_MIB = "debian-python", 1024
CYCLES = 3
NOTE = "/root/note"
START_SECONDS = 60


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


def main(root: Path, json_file: Path | None) -> int:
    """0 if every claim held. The report is written in either case."""
    report = Report()
    report.say("KeepState demo: save a working machine, kill it, resume it mid-work\n")
    passed = False
    try:
        with running(root) as stack:
            report.step(f"the stack runs at {stack.url}", time.monotonic() - report.began)
            demo = Demo(Client(stack.url, stack.token), stack, report)
            start(demo)
            for number in range(1, CYCLES + 1):
                cycle(demo, number)
            corruption(demo)
            demo.client.do("DELETE", f"/api/sessions/{demo.session}?force=1")
        passed = True
    except (ClaimFailed, Refused, TimeoutError) as error:
        report.say(f"\nfailed: {error}")
    report.table()
    report.facts["seconds"] = round(time.monotonic() - report.began, 2)
    report.say(f"\n{'Every claim held' if passed else 'A CLAIM FAILED'}; {report.facts['seconds']:.1f} s in all.")
    if json_file:
        report.write(json_file, passed=passed)
    return 0 if passed else 1


def start(demo: Demo) -> None:
    began = time.monotonic()
    created = demo.client.do("POST", "/api/sessions", {"Image": IMAGE, "Memory": MEMORY_MIB, "Name": "demo"})
    demo.session = created["id"]
    demo.report.step(f"a machine of {MEMORY_MIB} MiB boots ({IMAGE}), session {created['short_id']}", time.monotonic() - began)
    text = secrets.token_hex(5000)
    demo.note_digest = hashlib.sha256(text.encode()).hexdigest()
    demo.client.exec(demo.session, f"printf %s {text} > {NOTE}")
    demo.client.do(
        "POST",
        f"/api/sessions/{demo.session}/exec",
        {"Argv": ["/bin/sh", "-c", 'python3 -c "$0" >/dev/null 2>&1 </dev/null &', PROGRAM], "Timeout": 20},
    )
    began = time.monotonic()
    number, checksum, demo.nonce = _wait_status(demo, 0)
    demo.report.step(f"the agent works: step {number}, heap checksum {checksum}", time.monotonic() - began)


def cycle(demo: Demo, number: int) -> None:
    save(demo, number)
    kill(demo)
    resume(demo, number, None)


def save(demo: Demo, number: int) -> None:
    began = time.monotonic()
    saved = demo.client.do("POST", f"/api/sessions/{demo.session}/checkpoint", {"Stop": False, "Reason": f"demo {number}"})
    seconds = time.monotonic() - began
    demo.checkpoints.append(saved["checkpoint_id"])
    figures = {name: saved[name] for name in ("pause_seconds", "written_bytes", "stored_bytes")}
    demo.report.saves.append({**figures, "published_seconds": round(seconds, 3)})
    demo.report.step(f"save {number} is published; the machine stood still for {saved['pause_seconds'] * 1000:.0f} ms", seconds)


def kill(demo: Demo) -> None:
    pid = machine_pid(demo.stack.root, demo.session)
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}").exists() and not _is_zombie(pid):
        time.sleep(0.005)
    demo.report.step(f"its QEMU process {pid} is killed with SIGKILL")


def resume(demo: Demo, number: int, checkpoint: str | None) -> None:
    began = time.monotonic()
    answer = demo.client.do("POST", f"/api/sessions/{demo.session}/resume", {"Checkpoint": checkpoint} if checkpoint else {})
    seconds = time.monotonic() - began
    images = answer["images_from"]
    demo.report.step(f"resumed from {answer['checkpoint_id']}: the guest answers", seconds, images_from=images)
    first, _, _ = status(demo)
    step, checksum, nonce = _wait_status(demo, first)
    equal = checksum == demo.simulation.checksum(step)
    figures = {"seconds": round(seconds, 4), "running_seconds": answer["running_seconds"], "heap_equal": equal, "images_from": images}
    demo.report.resumes.append(figures)
    demo.report.claim(f"the heap equals its independent simulation at step {step}", equal, checksum)
    demo.report.claim("it is the same process: its nonce is the one drawn at its start", nonce == demo.nonce, nonce)
    demo.report.claim("its log has no gap and no step twice", _log_is_whole(demo))
    digest = demo.client.exec(demo.session, f"sha256sum {NOTE}")["stdout"].split()[0]
    demo.report.claim("the file written before the first save is unchanged", digest == demo.note_digest, digest)


def corruption(demo: Demo) -> None:
    """Flip one byte that the newest checkpoint alone needs; it must be refused, and the one before it must resume."""
    known = _packs(demo)
    save(demo, CYCLES + 1)
    new = sorted(_packs(demo) - known)
    demo.report.claim("the last save wrote a pack of its own", bool(new))
    kill(demo)
    _forget_cache(demo.stack.root)
    with new[0].open("r+b") as pack:
        middle = new[0].stat().st_size // 2
        pack.seek(middle)
        byte = pack.read(1)[0]
        pack.seek(middle)
        pack.write(bytes([byte ^ 1]))
    demo.report.step(f"one bit of byte {middle} of the stored pack is flipped, and the host's cache forgotten")
    refusal = _refusal(demo)
    demo.report.facts["corruption_refused"] = refusal == "ks_integrity"
    demo.report.claim("the damaged checkpoint is refused (ks_integrity)", refusal == "ks_integrity", refusal)
    demo.report.claim("no hypervisor was started for it", not machine_pids(demo.stack.root, demo.session))
    demo.simulation = Simulation()
    resume(demo, CYCLES + 1, demo.checkpoints[-2])
    demo.report.facts["previous_checkpoint_resumed"] = True


def _refusal(demo: Demo) -> str:
    try:
        demo.client.do("POST", f"/api/sessions/{demo.session}/resume", {})
    except Refused as refused:
        demo.report.step(f"resume: {refused.error.get('message', '')}")
        return refused.code
    return "resumed"


def status(demo: Demo) -> tuple[int, str, str]:
    """(step, heap checksum, nonce) as the agent last wrote them; (0, "", "") before its first."""
    words = demo.client.exec(demo.session, f"cat {STATUS}")["stdout"].split()
    return (int(words[0]), words[1], words[2]) if len(words) == 3 else (0, "", "")


def _wait_status(demo: Demo, beyond: int) -> tuple[int, str, str]:
    """The agent's next report after step `beyond`."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        seen = status(demo)
        if seen[0] > beyond:
            return seen
        time.sleep(0.2)
    raise ClaimFailed(f"the agent went on after step {beyond}")


def _log_is_whole(demo: Demo) -> bool:
    numbers = [int(line.split()[0]) for line in demo.client.exec(demo.session, f"cat {LOG}")["stdout"].splitlines()]
    return bool(numbers) and numbers == list(range(numbers[0], numbers[0] + 50 * len(numbers), 50)) and numbers[0] == 50


def machine_pid(root: Path, session: str) -> int:
    """The process of the session's machine: the one QEMU whose working directory is its runtime directory.

    Raises ClaimFailed if there is not exactly one.
    """
    found = machine_pids(root, session)
    if len(found) != 1:
        raise ClaimFailed(f"exactly one machine runs for the session, seen {found}")
    return found[0]


def machine_pids(root: Path, session: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            directory = Path(os.readlink(process / "cwd"))
        except OSError:
            continue
        if directory.name.startswith(session + ".") and directory.is_relative_to(root.resolve()):
            found.append(int(process.name))
    return found


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _packs(demo: Demo) -> set[Path]:
    return {path for path in (demo.stack.root / "store").rglob("packs/**/*") if path.is_file()}


def _forget_cache(root: Path) -> None:
    """As another host would be: nothing assembled. (`./keepstate host --clear-cache` does the same.)"""
    for image in (root / "host").glob("*/cache/*/*"):
        image.unlink(missing_ok=True)
