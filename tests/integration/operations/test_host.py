"""A host that registers, and one that cannot."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from celery.signals import worker_process_init
from django.core.management import call_command
from django.db.models.functions import Now
from pytest_django.fixtures import Settings

from checkpoints_app.services import storage_s3
from sessions_app.errors import FleetUnavailable
from tests.integration.operations.conftest import forget_caches
from tests.integration.operations.world import HOST, World
from tests.support.losses import LONG
from tests.support.waiting import until
from workers.host import liveness
from workers.host.pins import pin_here
from workers.host.queues import io_queues, vm_queues
from workers.host.register import register
from workers.machine.fake.driver import FakeDriver
from workers.management.commands import run_worker
from workers.models import Host, HostPin


def test_a_host_tells_its_size_and_its_pin(world: World) -> None:
    host = Host.objects.get()
    assert (host.id, host.cpus) == (HOST, os.cpu_count())
    assert host.memory_bytes > 0
    assert list(host.pins.all()) == [pin_here(os.uname().machine)]


def test_hosts_that_share_a_machine_offer_their_part_of_its_memory(world: World, settings: Settings) -> None:
    whole = Host.objects.get().memory_bytes
    settings.KEEPSTATE_HOST_SHARE = 3
    assert register().memory_bytes == whole // 3


def test_it_listens_on_its_own_queue_and_on_its_pins(world: World) -> None:
    pin = pin_here(os.uname().machine).digest
    assert vm_queues() == [f"host.{HOST}", f"pin.{pin[:16]}"]
    assert io_queues() == [f"io.{HOST}"]


def test_registering_again_changes_nothing_but_the_heartbeat(world: World) -> None:
    register()
    assert (Host.objects.count(), HostPin.objects.count()) == (1, 1)


def test_a_pin_that_is_not_proved_any_more_takes_no_work_here(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    old = pin_here(os.uname().machine)
    monkeypatch.setattr(FakeDriver, "pin_facts", lambda *_: {"hypervisor": "another"})
    register()
    assert old not in Host.objects.get().pins.all()
    assert Host.objects.get().pins.count() == 1


def test_an_architecture_that_cannot_be_proved_is_left_out_and_the_others_serve(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.uname().machine
    both = replace(FakeDriver().capabilities(), architectures=frozenset({own, "sparc64"}))
    monkeypatch.setattr(FakeDriver, "capabilities", lambda _: both)
    assert [pin.architecture for pin in register().pins.all()] == [own]


def test_a_host_of_two_architectures_listens_for_both(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    both = replace(FakeDriver().capabilities(), architectures=frozenset({"x86_64", "aarch64"}))
    monkeypatch.setattr(FakeDriver, "capabilities", lambda _: both)
    monkeypatch.setattr(FakeDriver, "pin_facts", lambda _, architecture: {"architecture": architecture})
    pins = register().pins.all()
    assert sorted(pin.architecture for pin in pins) == ["aarch64", "x86_64"]
    assert set(vm_queues()) == {f"host.{HOST}", *(f"pin.{pin.digest[:16]}" for pin in pins)}


def test_a_host_without_a_hypervisor_registers_nothing_and_names_what_to_install(
    host: Path, transactional_db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings.KEEPSTATE_MACHINE_DRIVER = "qemu"
    forget_caches()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FleetUnavailable, match="qemu-system-x86"):
        register()
    assert not Host.objects.exists()
    assert not HostPin.objects.exists()


@pytest.mark.parametrize(("kind", "heard"), [("vm", True), ("io", False)])
def test_a_worker_is_heard_of_as_what_it_is_by_its_start_and_by_its_beats(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, heard: bool
) -> None:
    seen: list[bool] = []

    def serve(*_: object) -> None:
        """In Celery's place."""
        seen.append(Host.objects.get().vm_heard_at is not None)
        Host.objects.update(vm_heard_at=None, heartbeat_at=Now() - LONG)
        until(liveness.alive().exists, 10, "a beat came")
        seen.append(Host.objects.get().vm_heard_at is not None)

    monkeypatch.setattr("workers.host.heartbeat.BEAT_SECONDS", 0.05)
    monkeypatch.setattr(run_worker, "serve_relay", lambda: None)
    monkeypatch.setattr(storage_s3, "be_patient", lambda: None)  # this process lives on, and other tests wait for a store
    monkeypatch.setattr(worker_process_init, "connect", lambda *_, **__: None)
    monkeypatch.setattr(run_worker.Command, "_serve", serve)
    call_command("run_worker", kind)
    assert seen == [heard, heard]
