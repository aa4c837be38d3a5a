"""Which hosts take a boot or a resume, and how a refusal tells why none does."""

from datetime import timedelta

import pytest
from django.db.models import F

from checkpoints_app.models import Pin
from checkpoints_app.services import pin as pins
from checkpoints_app.states import CheckpointState
from sessions_app.errors import FleetUnavailable, NotFound, NotRestorable, StackIncompatible
from sessions_app.services.placement import Placement
from sessions_app.states import SessionState, WaitsFor
from tests.support.fleet import GIB, HOST, Tenant, checkpoint_row, session_row
from workers.host.compatibility import hosts_for_pin
from workers.host.liveness import silent_after
from workers.host.placement import place_boot, place_resume
from workers.host.room import OVERCOMMIT
from workers.models import CachedImage, Host, HostPin


@pytest.fixture
def pin(owner: Tenant) -> Pin:
    return Pin.objects.get()


def boot(memory_bytes: int = GIB, architecture: str = "x86_64") -> Placement:
    return place_boot(architecture=architecture, image_digest="a" * 64, memory_bytes=memory_bytes)


def another_host(name: str, pin: Pin, gib: int = 1024) -> Host:
    host = Host.objects.create(id=name, memory_bytes=gib * GIB, cpus=2, boot_id="boot")
    HostPin.objects.create(host=host, pin=pin)
    return host


def silence(name: str = HOST) -> None:
    Host.objects.filter(id=name).update(heartbeat_at=F("heartbeat_at") - silent_after() - timedelta(seconds=1))


def waits(placed: Placement) -> tuple[str, int]:
    assert placed.host_id == ""
    return placed.waits_for, placed.reserved_bytes


def resume_of(owner: Tenant, **fields: object) -> Placement:
    session = session_row(owner.account, SessionState.PARKED, saved=True, host_id="", **fields)
    return place_resume(session=session, checkpoint_id=session.head_checkpoint_id)


def test_a_boot_goes_to_a_host_with_room_and_reserves_it(pin: Pin) -> None:
    assert boot() == Placement(f"host.{HOST}", HOST, GIB)


@pytest.mark.parametrize("why", ["silent", "architecture", "no host"])
def test_a_boot_that_no_host_can_ever_take_is_refused(pin: Pin, why: str) -> None:
    if why == "silent":
        silence()
    if why == "no host":
        Host.objects.all().delete()
    with pytest.raises(FleetUnavailable, match="No session was started"):
        boot(architecture="aarch64" if why == "architecture" else "x86_64")


@pytest.mark.parametrize("state", ["running", "checkpointing", "stopping", "provisioning", "resuming"])
def test_a_host_is_full_when_what_its_machines_may_use_exceeds_what_it_may_promise(owner: Tenant, pin: Pin, state: SessionState) -> None:
    Host.objects.update(memory_bytes=4 * GIB)
    room = int(4 * GIB * OVERCOMMIT)
    session_row(owner.account, state, memory_bytes=room - GIB)
    assert boot(GIB).host_id == HOST
    assert waits(boot(GIB + 1)) == (WaitsFor.NO_ROOM, GIB + 1)


@pytest.mark.parametrize("state", ["parked", "failed", "deleted"])
def test_sessions_without_a_machine_take_no_room(owner: Tenant, pin: Pin, state: SessionState) -> None:
    Host.objects.update(memory_bytes=4 * GIB)
    session_row(owner.account, state, memory_bytes=16 * GIB)
    boot(GIB)


def test_of_hosts_that_are_alike_the_one_with_most_room_takes_it(owner: Tenant, pin: Pin) -> None:
    roomier = pins.record("x86_64", {"hypervisor": "another"})
    another_host("h-roomier", roomier, gib=2048)
    assert boot().host_id == "h-roomier"
    session_row(owner.account, host_id="h-roomier", memory_bytes=2048 * GIB)
    assert boot().host_id == HOST


def test_a_resume_goes_to_a_host_with_its_checkpoints_pin_and_to_no_other(owner: Tenant, pin: Pin) -> None:
    another_host("h-roomier", pins.record("x86_64", {"hypervisor": "another"}), gib=4096)
    assert resume_of(owner).host_id == HOST


def test_a_checkpoint_of_no_host_here_is_refused_naming_each_field_that_differs(owner: Tenant, pin: Pin) -> None:
    Host.objects.all().delete()
    another_host("h-other", pins.record("x86_64", {"hypervisor": "another", "firmware": "f"}))
    with pytest.raises(StackIncompatible, match="firmware, hypervisor") as refusal:
        resume_of(owner)
    assert refusal.value.facts["differences"] == {
        "hypervisor": {"checkpoint": "test", "host": "another"},
        "firmware": {"checkpoint": None, "host": "f"},
    }


def test_a_resume_waits_for_the_room_of_a_host_with_its_pin_while_others_are_empty(owner: Tenant, pin: Pin) -> None:
    session_row(owner.account, memory_bytes=1536 * GIB)
    another_host("h-other", pins.record("x86_64", {"hypervisor": "another"}))
    assert waits(resume_of(owner)) == (WaitsFor.NO_ROOM, 256 << 20)


def test_a_resume_waits_for_the_end_of_draining_while_others_are_empty(owner: Tenant, pin: Pin) -> None:
    Host.objects.update(draining=True)
    another_host("h-other", pins.record("x86_64", {"hypervisor": "another"}))
    assert waits(resume_of(owner)) == (WaitsFor.DRAINING, 256 << 20)


def test_a_machine_that_is_larger_than_any_host_offers_is_refused_with_what_there_is(owner: Tenant, pin: Pin) -> None:
    Host.objects.update(offered_bytes=4 * GIB)
    with pytest.raises(FleetUnavailable, match="No live host offers 5120 MiB") as refusal:
        boot(5 * GIB)
    assert refusal.value.facts["largest_offer_bytes"] == 4 * GIB


def test_what_an_operator_offers_of_a_host_overrules_the_memory_that_it_has(owner: Tenant, pin: Pin) -> None:
    Host.objects.update(memory_bytes=GIB, offered_bytes=4 * GIB)
    session_row(owner.account, memory_bytes=2 * GIB)
    assert boot(2 * GIB).host_id == HOST
    assert boot(3 * GIB).waits_for == WaitsFor.NO_ROOM


@pytest.mark.parametrize("heat", ["hot", "warm"])
def test_a_resume_goes_where_what_it_starts_from_lies_however_full_that_host_is(owner: Tenant, pin: Pin, heat: str) -> None:
    session = session_row(owner.account, SessionState.PARKED, host_id="")
    row = checkpoint_row(session, memory_root="c" * 64)
    another_host("h-roomier", pin, gib=4096)
    CachedImage.objects.create(host_id=HOST, root="c" * 64, heat=heat)
    assert place_resume(session=session, checkpoint_id=row.id).host_id == HOST
    CachedImage.objects.create(host_id="h-roomier", root="c" * 64, heat="hot")
    assert place_resume(session=session, checkpoint_id=row.id).host_id == "h-roomier"


def test_what_is_asked_in_the_owners_stead_waits_for_a_silent_host_and_not_for_one_that_is_gone(owner: Tenant, pin: Pin) -> None:
    session = session_row(owner.account, SessionState.PARKED, saved=True, host_id="")
    silence()
    assert place_resume(session=session, checkpoint_id=session.head_checkpoint_id, patient=True).waits_for == WaitsFor.NO_HOST
    Host.objects.update(retired_at=F("heartbeat_at"))
    with pytest.raises(FleetUnavailable, match="No live host"):
        place_resume(session=session, checkpoint_id=session.head_checkpoint_id, patient=True)


def test_a_fleet_that_is_away_is_told_as_such(owner: Tenant, pin: Pin) -> None:
    silence()
    with pytest.raises(FleetUnavailable, match="No live host"):
        resume_of(owner)


def test_a_host_of_another_architecture_is_no_reason(owner: Tenant, pin: Pin) -> None:
    silence()
    another_host("h-arm", pins.record("aarch64", {"hypervisor": "another"}))
    with pytest.raises(FleetUnavailable, match="No live host"):
        resume_of(owner)


def test_an_architecture_that_no_live_host_runs_is_named_and_told_from_a_full_fleet(owner: Tenant, pin: Pin) -> None:
    another_host("h-arm", pins.record("aarch64", {"hypervisor": "another"}))
    HostPin.objects.filter(pin__architecture="aarch64").delete()
    with pytest.raises(FleetUnavailable, match=r"No live host runs aarch64 machines\. No session was started") as refusal:
        place_boot(architecture="aarch64", image_digest="a" * 64, memory_bytes=GIB)
    assert "./keepstate doctor" in refusal.value.next_action


def test_a_session_is_placed_on_a_host_of_its_images_architecture(owner: Tenant, pin: Pin) -> None:
    arm = pins.record("aarch64", {"hypervisor": "another"})
    another_host("h-arm", arm, gib=1)
    assert place_boot(architecture="aarch64", image_digest="a" * 64, memory_bytes=GIB).host_id == "h-arm"
    assert boot().host_id == HOST


def test_the_refusal_names_what_the_nearest_host_differs_in_whatever_the_others_are(owner: Tenant, pin: Pin) -> None:
    Host.objects.all().delete()
    another_host("h-far", pins.record("x86_64", {"hypervisor": "another", "firmware": "f", "cpu": "c"}))
    another_host("h-near", pins.record("x86_64", {"hypervisor": "test", "cpu": "c"}))
    with pytest.raises(StackIncompatible) as refusal:
        resume_of(owner)
    assert refusal.value.facts["differences"] == {"cpu": {"checkpoint": None, "host": "c"}}
    assert refusal.value.facts["hosts_compared"] == 2


def test_every_host_is_judged_for_an_operator_those_that_fit_first(owner: Tenant, pin: Pin) -> None:
    another_host("h-arm", pins.record("aarch64", {"hypervisor": "test", "architecture": "aarch64"}))
    another_host("h-other", pins.record("x86_64", {"hypervisor": "another"}))
    another_host("h-drains", pin)
    Host.objects.filter(id="h-drains").update(draining=True)
    found = [(fit.host, fit.takes_it, fit.state, fit.same_architecture, dict(fit.differences)) for fit in hosts_for_pin(pin.digest)]
    assert found == [
        ("h-test", True, "alive", True, {}),
        ("h-other", False, "alive", True, {"hypervisor": {"checkpoint": "test", "host": "another"}}),
        ("h-arm", False, "alive", False, {}),
        ("h-drains", False, "draining", True, {}),
    ]


def test_a_checkpoint_that_is_not_valid_is_refused_with_its_state(owner: Tenant, pin: Pin) -> None:
    session = session_row(owner.account, SessionState.PARKED)
    row = checkpoint_row(session, CheckpointState.CORRUPT)
    with pytest.raises(NotRestorable, match="corrupt"):
        place_resume(session=session, checkpoint_id=row.id)


def test_a_checkpoint_of_another_session_is_not_found(owner: Tenant, pin: Pin) -> None:
    other = session_row(owner.account, SessionState.PARKED, saved=True)
    with pytest.raises(NotFound):
        place_resume(session=session_row(owner.account, SessionState.PARKED), checkpoint_id=other.head_checkpoint_id)
