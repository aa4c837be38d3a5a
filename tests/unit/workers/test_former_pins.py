"""A host that proves other pins than before: the old ones take no work there, are remembered, and are told of where work needs them."""

import pytest

from checkpoints_app.models import Pin
from checkpoints_app.services import pin as pins
from checkpoints_app.states import CheckpointState
from sessions_app.models import ServiceRecord
from sessions_app.states import SessionState
from tests.support.fleet import HOST, Tenant, checkpoint_row, session_row
from workers.host import proved
from workers.models import FormerPin, Host, HostPin


@pytest.fixture
def old(owner: Tenant) -> Pin:
    return Pin.objects.get()


@pytest.fixture
def new(old: Pin) -> Pin:
    return pins.record("x86_64", {"hypervisor": "newer"})


def upgrade(to: Pin, host_id: str = HOST) -> None:
    proved.keep(Host.objects.get(id=host_id), [to])


def told() -> list[dict[str, object]]:
    return [line.facts for line in ServiceRecord.objects.filter(type="host.pin_lost")]


def test_a_pin_that_is_proved_no_more_is_remembered_with_when_it_was_proved_last(old: Pin, new: Pin) -> None:
    before = HostPin.objects.get()
    upgrade(new)
    assert [row.pin for row in HostPin.objects.all()] == [new]
    former = FormerPin.objects.get()
    assert (former.host_id, former.pin, former.proved_at) == (HOST, old, before.proved_at)
    assert former.lost_at >= former.proved_at


def test_a_downgrade_proves_it_again_and_the_newer_one_is_remembered(old: Pin, new: Pin) -> None:
    upgrade(new)
    upgrade(old)
    upgrade(new)
    upgrade(old)
    assert [row.pin for row in HostPin.objects.all()] == [old]
    assert [row.pin for row in FormerPin.objects.all()] == [new]


def test_work_that_no_live_host_can_resume_any_more_is_told_with_how_much_it_is(owner: Tenant, old: Pin, new: Pin) -> None:
    session = session_row(owner.account, SessionState.PARKED, saved=True)
    checkpoint_row(session)
    session_row(owner.account, SessionState.PARKED, saved=True)
    upgrade(new)
    assert told() == [{"host_id": HOST, "pin": old.digest, "checkpoints": 3, "sessions": 2}]


def test_nothing_is_told_where_another_live_host_has_the_pin(owner: Tenant, old: Pin, new: Pin) -> None:
    session_row(owner.account, SessionState.PARKED, saved=True)
    other = Host.objects.create(id="h-other", memory_bytes=1, cpus=1, boot_id="b")
    HostPin.objects.create(host=other, pin=old)
    upgrade(new)
    assert told() == []
    upgrade(new, "h-other")
    assert [line["host_id"] for line in told()] == ["h-other"]


def test_nothing_is_told_where_nothing_valid_was_saved_under_it(owner: Tenant, old: Pin, new: Pin) -> None:
    checkpoint_row(session_row(owner.account, SessionState.FAILED), CheckpointState.ERASED)
    upgrade(new)
    assert told() == []


def test_a_host_that_leaves_the_fleet_leaves_its_pins_in_memory(owner: Tenant, old: Pin) -> None:
    session_row(owner.account, SessionState.PARKED, saved=True)
    proved.give_up(Host.objects.get())
    assert not HostPin.objects.exists()
    assert FormerPin.objects.get().pin == old
    assert len(told()) == 1
