"""The demo's first part: an agent works in a machine that is saved, killed and resumed, and its whole state is checked from outside."""

import hashlib
import secrets
import time

from keepstate_site.demo.agent import LOG, PROGRAM, STATUS
from keepstate_site.demo.report import ClaimFailed
from keepstate_site.demo.scene import Demo, kill, save

IMAGE, MEMORY_MIB = "debian-python", 1024
NOTE = "/root/note"
START_SECONDS = 60


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
