"""A program in a real machine reads a model's answer while the machine is saved, killed and resumed: it sees nothing of that."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway_app.proxy import channel as channels
from tests.driver_suite import DriverSuite
from tests.integration.gateway.house import SECRET, STREAM, House, run, until
from tests.integration.gateway.relay import Break, Line
from tests.integration.gateway.test_calls import recorded
from tests.integration.gateway.test_replay import resumed
from tests.machine_kit import BOOT_SECONDS, GUEST_SECONDS, assemble
from tests.machine_kit import run as shell
from tests.support.fixtures import doorbells, owner
from tests.support.fleet import Tenant
from tests.support.networks import remove_networks
from workers.machine.driver import GuestImage, Machine, MachineSpec, SavedState
from workers.machine.network import namespace
from workers.machine.network.addresses import GATEWAY_ADDRESS, GATEWAY_PORT
from workers.machine.network.listen import listen_inside
from workers.machine.qemu.driver import QemuDriver
from workers.machine.script import TakesEnvironment
from workers.operations import environment

__all__ = ["doorbells", "owner"]
pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(600),
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(namespace.obstacle() is not None, reason="network namespaces need root and /dev/net/tun"),
]
SPEC = MachineSpec("session", 256 << 20, 1)
#: It knows of no relay and retries nothing: what it prints is what came.
PROGRAM = f"""
import os, sys, urllib.request
headers = {{"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01", "content-type": "application/json"}}
asked = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", {json.dumps(STREAM).encode()!r}, headers)
with urllib.request.urlopen(asked) as answer:
    while piece := answer.read1(65536):
        sys.stdout.buffer.write(piece)
        sys.stdout.flush()
"""
START = 'printf %s "$1" >/root/program.py; (python3 /root/program.py >/root/out 2>/root/err; echo $? >/root/code) >/dev/null 2>&1 &'
BEFORE = 700  # bytes that the program has of its answer when the machine is saved


@asynccontextmanager
async def channel(line: Line, net: Path) -> AsyncIterator[None]:
    listening = await asyncio.to_thread(listen_inside, net, GATEWAY_ADDRESS, GATEWAY_PORT)
    async with await asyncio.start_server(line.serve, sock=listening):
        yield
        line.cut()


def printed(machine: Machine) -> int:
    return int(shell(machine, "cat /root/out 2>/dev/null | wc -c"))


def save(machine: Machine, image: GuestImage, place: Path) -> SavedState:
    """Nothing is left of the machine that was saved."""
    (place / "staging").mkdir()
    state = assemble(machine.capture(place / "staging", continue_after=False), image, place / "saved")
    machine.kill()
    namespace.remove(place / "net" / machine.runtime.name)
    return state


def wake(driver: QemuDriver, image: GuestImage, place: Path, state: SavedState) -> Machine:
    machine = driver.resume(place / "second", SPEC, image, state, timeout_seconds=GUEST_SECONDS)
    machine.run()
    machine.greet(GUEST_SECONDS)()
    return machine


async def say(at: House, machine: Machine) -> None:
    """As a boot does."""
    assert isinstance(machine, TakesEnvironment)
    await asyncio.to_thread(machine.environment, environment.text(channels.credential(at.session.id, SECRET)), GUEST_SECONDS)
    argv = ["sh", "-c", START, "sh", PROGRAM]
    started = await asyncio.to_thread(machine.exec, argv, timeout_seconds=30, output_limit=1000)
    assert started.exit_code == 0, started


def test_a_stream_goes_on_after_a_save_a_kill_and_a_resume_as_if_nothing_had_been(
    owner: Tenant, python_image: GuestImage, tmp_path: Path
) -> None:
    driver = QemuDriver(tmp_path / "proofs", networks=tmp_path / "net")

    async def act(at: House) -> None:
        machine = await asyncio.to_thread(driver.boot, tmp_path / "first", SPEC, python_image, timeout_seconds=BOOT_SECONDS)
        line = Line(at.url)
        line.breaks.extend([Break("hang", BEFORE), *[Break("hang", 0)] * 20])
        async with channel(line, tmp_path / "net" / "first"):
            await say(at, machine)
            await until(lambda: _has_printed(machine, BEFORE))
            await until(lambda: _over(at))
            state = await asyncio.to_thread(save, machine, python_image, tmp_path)
        line = Line(await resumed(at))
        again = await asyncio.to_thread(wake, driver, python_image, tmp_path, state)
        async with channel(line, tmp_path / "net" / "second"):
            await until(lambda: _ended(again))
        told = await asyncio.to_thread(shell, again, "cat /root/err; cat /root/out")
        assert told.encode() == (await recorded()).strip()
        assert at.bill["calls"] == 1
        assert line.connections >= 1

    try:
        run(owner.account, act)
    finally:
        DriverSuite.end(driver, tmp_path)
        remove_networks(tmp_path)


async def _has_printed(machine: Machine, count: int) -> bool:
    return await asyncio.to_thread(printed, machine) == count


async def _over(at: House) -> bool:
    """The provider has given all of it, and it is recorded."""
    return at.bill["calls"] == 1 and not at.gate.pumps


async def _ended(machine: Machine) -> bool:
    return await asyncio.to_thread(shell, machine, "cat /root/code 2>/dev/null || true") == "0"
