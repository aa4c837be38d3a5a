"""Who holds a pin: what a refusal says of it, and how much saved work has nobody."""

from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from checkpoints_app.models import Pin
from checkpoints_app.services import pin as pins
from checkpoints_app.states import CheckpointState
from keepstate_site.observe.gauges import all_gauges
from sessions_app.errors import StackIncompatible
from sessions_app.states import SessionState
from tests.support.fleet import HOST, Tenant, checkpoint_row, session_row
from workers.host import proved
from workers.host.holders import holders, unheld
from workers.host.liveness import silent_after
from workers.host.placement import place_resume
from workers.models import Host, HostPin


@pytest.fixture
def pin(owner: Tenant) -> Pin:
    return Pin.objects.get()


def silence() -> None:
    Host.objects.update(heartbeat_at=F("heartbeat_at") - silent_after() - timedelta(seconds=1))


def upgrade() -> None:
    proved.keep(Host.objects.get(id=HOST), [pins.record("x86_64", {"hypervisor": "newer"})])


def another_host(name: str, pin: Pin, **fields: object) -> None:
    host = Host.objects.create(id=name, memory_bytes=1, cpus=1, boot_id="b", **fields)
    HostPin.objects.create(host=host, pin=pin)


def refuse(owner: Tenant) -> tuple[str, list[dict[str, object]]]:
    session = session_row(owner.account, SessionState.PARKED, saved=True, host_id="")
    with pytest.raises(StackIncompatible) as refusal:
        place_resume(session=session, checkpoint_id=session.head_checkpoint_id)
    assert HOST not in str(refusal.value.as_dict())
    return refusal.value.message, refusal.value.facts["hosts_of_pin"]


def test_holders_are_told_with_their_state_those_that_are_heard_of_first(pin: Pin) -> None:
    another_host("h-away", pin, retired_at=timezone.now())
    another_host("h-drains", pin, draining=True)
    assert [(one.host, one.state) for one in holders(pin.digest)] == [("h-drains", "draining"), (HOST, "alive"), ("h-away", "retired")]


def test_a_host_that_was_upgraded_is_told_with_when_it_lost_the_pin(pin: Pin) -> None:
    upgrade()
    (one,) = holders(pin.digest)
    assert (one.host, one.state) == (HOST, "proves_another")
    assert one.since is not None


def test_after_an_upgrade_the_refusal_names_what_differs_and_where_the_pin_was(owner: Tenant, pin: Pin) -> None:
    upgrade()
    message, listed = refuse(owner)
    assert "differs in: hypervisor. A host that had it proves another pin since 20" in message
    assert [one["state"] for one in listed] == ["proves_another"]


def test_of_a_silent_holder_the_refusal_tells_since_when(owner: Tenant, pin: Pin) -> None:
    silence()
    another_host("h-new", pins.record("x86_64", {"hypervisor": "newer"}))
    message, listed = refuse(owner)
    assert "A host that had it is silent since 20" in message
    assert listed == [{"state": "silent", "since": Host.objects.get(id=HOST).heartbeat_at.isoformat()}]


def test_checkpoints_whose_pin_no_live_host_holds_are_counted_and_no_others(owner: Tenant, pin: Pin) -> None:
    session = session_row(owner.account, SessionState.PARKED, saved=True)
    checkpoint_row(session, CheckpointState.ERASED)
    assert unheld() == 0
    upgrade()
    assert unheld() == 1
    another_host("h-old", pin, draining=True)
    assert unheld() == 0
    silence()
    assert unheld() == 1


def test_the_metric_tells_them(owner: Tenant, pin: Pin) -> None:
    session_row(owner.account, SessionState.PARKED, saved=True)
    upgrade()
    found = {metric.name: metric.samples for metric in all_gauges()}
    assert [sample.value for sample in found["keepstate_pins_unheld"]] == [1]
