"""Gate fleet: the soak of `./keepstate bench fleet` in three minutes. Most of it is waiting: it runs beside all other tests."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.bench.fleet.soak import Soak, Wanted
from tests.gates.fleet.room import fleet

pytestmark = [pytest.mark.vm, pytest.mark.soak, pytest.mark.timeout(900)]
SEED = int(os.environ.get("KEEPSTATE_SOAK_SEED", "7"))
HOSTS = ("h-1", "h-2")
#: What a fleet meets most, each once. All of the table come in the bench's half hour.
KINDS = (
    "vm worker killed",
    "all machines of a host killed",
    "host killed",
    "host paused",
    "web killed",
    "redis gone",
    "connections cut",
    "store silent",
)


#: Its sweeps are as far apart as the bounds allow: at one a second, the turns of all its hosts would keep half a processor busy.
CALM = {"KEEPSTATE_SWEEP_SECONDS": "4", "KEEPSTATE_HOST_SILENT_SECONDS": "6", "KEEPSTATE_HOST_LOST_SECONDS": "8"}


def soaked(root: Path, wanted: Wanted, switch: Path | None = None, mechanism: str = "") -> Soak:
    """The journal stays beside the stack's directory, for whoever reads a failure."""
    with fleet(root / "stack", HOSTS, switch, CALM, s3=True) as opened:
        if switch is not None:
            switch.write_text(mechanism)
        soak = Soak(opened, wanted, root / "journal.jsonl")
        soak.run()
    return soak


@pytest.mark.gate(
    "fleet", "Three minutes of random work with a fault every 20 s: no session is lost, no heap is wrong, nothing is left over at the end"
)
def test_nothing_is_lost_wrong_or_left_over(tmp_path: Path, evidence: dict[str, Any]) -> None:
    (tmp_path / "stack").mkdir()
    wanted = Wanted(
        seconds=180, sessions=2, clients=2, pause_seconds=5, seed=SEED, fault_every=20, bound_seconds=120, hosts=HOSTS, kinds=KINDS
    )
    soak = soaked(tmp_path, wanted)
    recovered = sorted(soak.measured.recoveries)
    evidence |= {"counts": dict(soak.asking.counts), "answered again after": recovered, "findings": soak.findings}
    assert soak.asking.counts["exec done"] > 10, "nothing was asked of the machines"
    assert len(recovered) >= 4, f"hardly any fault touched a session: {recovered}"
    assert soak.findings == [], "\n".join(soak.findings) + f"\nAll that happened: {soak.journal.file}"


@pytest.mark.long
def test_the_soak_finds_resumes_that_boot_afresh(tmp_path: Path) -> None:
    (tmp_path / "stack").mkdir()
    wanted = Wanted(
        seconds=40, sessions=2, clients=2, pause_seconds=0.5, seed=SEED, fault_every=15, bound_seconds=60, hosts=HOSTS,
        kinds=("all machines of a host killed",),
    )  # fmt: skip
    switch = tmp_path / "switch"
    switch.touch()
    assert soaked(tmp_path, wanted, switch, "resume_boots_afresh").findings
