"""A program in a real machine that goes by the proxy's variables: it reaches what its policy names, and reads why nothing else."""

import asyncio
from pathlib import Path

import pytest

from gateway_app.egress.server import listen
from tests.integration.gateway.outside import HOST, PUBLIC, Outside
from tests.integration.gateway.outside import run as run_outside
from tests.machine_kit import BOOT_SECONDS, run
from tests.support.fixtures import doorbells, owner
from tests.support.fleet import Tenant
from workers.machine.driver import GuestImage, MachineSpec
from workers.machine.network import namespace
from workers.machine.network.addresses import EGRESS_PORT, GATEWAY_ADDRESS
from workers.machine.network.listen import listen_inside
from workers.machine.qemu.driver import QemuDriver

__all__ = ["doorbells", "owner"]
pytestmark = [
    pytest.mark.vm,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(namespace.obstacle() is not None, reason="network namespaces need root and /dev/net/tun"),
]
FETCHES = f"""
export http_proxy=http://{GATEWAY_ADDRESS}:{EGRESS_PORT}
wget -q -O - http://{HOST}/; echo
for url in http://other.example.com/ http://169.254.169.254/; do wget -O - $url 2>&1 || true; done
"""


def test_a_guests_program_reaches_what_is_allowed_and_reads_why_it_reaches_nothing_else(
    tmp_path: Path, tiny_image: GuestImage, owner: Tenant
) -> None:
    driver = QemuDriver(tmp_path / "proofs", networks=tmp_path / "net")
    machine = driver.boot(tmp_path / "one", MachineSpec("session", 128 << 20, 1), tiny_image, timeout_seconds=BOOT_SECONDS)

    async def act(at: Outside) -> None:
        at.doors.append(await listen(at.egress, at.who, listen_inside(tmp_path / "net" / "one", GATEWAY_ADDRESS, EGRESS_PORT)))
        said = (await asyncio.to_thread(run, machine, FETCHES)).splitlines()
        assert said[0] == "ok"
        assert "403 Denied by the egress policy of the session" in said[1] + said[2]
        assert "403 Addresses are not let through" in said[3] + said[4]
        assert at.world.dialled == [(PUBLIC, 80)]

    try:
        run_outside(owner.account, act)
    finally:
        machine.kill()
        namespace.remove(tmp_path / "net" / "one")
