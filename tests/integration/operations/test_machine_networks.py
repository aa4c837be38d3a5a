"""What becomes of a machine's network with its session, and how a machine goes on that was saved before there were networks."""

from dataclasses import replace

import pytest

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import pin as pins
from sessions_app.models import Session
from sessions_app.services.steps import CapabilityRow
from tests.integration.operations.world import World, succeeded
from workers.host import capabilities
from workers.host.identity import networks_directory
from workers.host.queues import vm_queues
from workers.host.register import register
from workers.machine.driver import GuestImage, MachineSpec
from workers.machine.fake.driver import FakeDriver
from workers.machine.fake.machine import FakeMachine
from workers.models import Host
from workers.operations.observe import observe

OLDER = {"hypervisor": "fake", "devices": "without a network"}


def network_of(world: World, session: Session) -> str:
    """As its machine's driver makes it; here of a plain file, as a restart of the host leaves it."""
    networks_directory().mkdir(exist_ok=True)
    (networks_directory() / world.runtime(session).name).touch()
    return world.runtime(session).name


def networks() -> list[str]:
    return sorted(path.name for path in networks_directory().iterdir())


def test_whoever_ends_a_machine_removes_its_network(world: World) -> None:
    stopped, deleted, kept = world.boot(), world.boot(), world.boot()
    held = [network_of(world, session) for session in (stopped, deleted, kept)]
    assert networks() == sorted(held)
    world.save(stopped, stop=True)
    succeeded(world.delete(deleted))
    assert networks() == [held[2]]


def test_a_network_whose_machine_has_no_directory_is_swept_and_one_of_a_machine_that_lives_is_not(world: World, session: Session) -> None:
    held = network_of(world, session)
    (networks_directory() / f"{session.id}.0").touch()
    observe()
    assert networks() == [held]


@pytest.fixture
def older(world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """The pin of machines that were saved before machines had a network, on a host that knows them."""
    monkeypatch.setattr(FakeDriver, "pin_facts_without_network", lambda *_: dict(OLDER))
    register()
    return pins.digest(OLDER)


@pytest.fixture
def resumed_specs(monkeypatch: pytest.MonkeyPatch) -> list[MachineSpec]:
    seen: list[MachineSpec] = []
    resume = FakeDriver.resume

    def watched(self: FakeDriver, runtime: object, spec: MachineSpec, *rest: GuestImage, **options: float) -> FakeMachine:
        seen.append(spec)
        return resume(self, runtime, spec, *rest, **options)  # type: ignore[arg-type, return-value]

    monkeypatch.setattr(FakeDriver, "resume", watched)
    return seen


def test_a_host_takes_checkpoints_of_machines_with_a_network_and_of_older_ones_without(world: World, older: str) -> None:
    assert f"pin.{older[:16]}" in vm_queues()
    assert len(vm_queues()) == 3


def test_a_checkpoint_of_an_older_machine_resumes_without_a_network_and_what_it_saves_is_of_the_same_kind(
    world: World, session: Session, older: str, resumed_specs: list[MachineSpec]
) -> None:
    world.save(session, stop=True)
    Checkpoint.objects.update(pin_id=older)
    succeeded(world.resume(session))
    again = world.save(session, stop=True)
    succeeded(world.resume(session))
    assert [spec.network for spec in resumed_specs] == [False, False]
    assert again.pin_id == older


def test_a_machine_that_was_booted_since_resumes_with_its_network(
    world: World, session: Session, older: str, resumed_specs: list[MachineSpec]
) -> None:
    world.save(session, stop=True)
    succeeded(world.resume(session))
    assert [spec.network for spec in resumed_specs] == [True]


def test_a_host_tells_whether_its_machines_reach_the_gateway(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def row() -> CapabilityRow:
        return next(row for row in capabilities.rows() if row.id == "machines.network")

    assert (row().availability, "No live host" in row().note) == ("degraded", True)
    able = replace(FakeDriver().capabilities(), network=True)
    monkeypatch.setattr(FakeDriver, "capabilities", lambda _: able)
    register()
    assert (row().availability, row().note) == ("available", "")
    Host.objects.create(id="without", memory_bytes=1, cpus=1, boot_id="b")
    assert (row().availability, "Some live hosts" in row().note) == ("degraded", True)
