"""The demo's last part: one stored byte is flipped."""

from pathlib import Path

from keepstate_site.client import Refused
from keepstate_site.demo.agent import Simulation
from keepstate_site.demo.process import machine_pids
from keepstate_site.demo.scene import Demo, kill, save
from keepstate_site.demo.work import resume


def corruption(demo: Demo) -> None:
    """Flip one byte that the newest checkpoint alone needs; it must be refused, and the one before it must resume."""
    known = _packs(demo)
    save(demo, len(demo.report.saves) + 1)
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
    resume(demo, len(demo.report.resumes) + 1, demo.checkpoints[-2])
    demo.report.facts["previous_checkpoint_resumed"] = True


def _refusal(demo: Demo) -> str:
    try:
        demo.client.do("POST", f"/api/sessions/{demo.session}/resume", {})
    except Refused as refused:
        demo.report.step(f"resume: {refused.error.get('message', '')}")
        return refused.code
    return "resumed"


def _packs(demo: Demo) -> set[Path]:
    return {path for path in (demo.stack.root / "store").rglob("packs/**/*") if path.is_file()}


def _forget_cache(root: Path) -> None:
    """As another host would be: nothing assembled. (`./keepstate host clear-cache` does the same.)"""
    for image in (root / "host").glob("*/cache/*/*"):
        image.unlink(missing_ok=True)
