"""A host whose vm worker alone is silent is alive, keeps its machines, and is given no other ones until that worker is heard of again."""

import re
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from pytest_django.fixtures import Settings

from checkpoints_app.models import Pin
from sessions_app.models import Operation, Session
from sessions_app.services import lease as leases
from sessions_app.services import session as sessions
from sessions_app.services import waiting
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from sessions_app.states import SessionState
from tests.support.fleet import GIB, HOST, IMAGE, Tenant, session_row
from tests.support.losses import LONG, OTHER, is_lost, turn
from workers.admin import host_page
from workers.fleet.waiting import place_waiting
from workers.host import targets
from workers.host.claim import claim
from workers.host.heartbeat import Heartbeat
from workers.host.liveness import alive, begins_machines
from workers.models import Host, HostPin

FACTS: dict[str, Any] = {"memory_bytes": 1 << 30, "cpus": 2, "boot_id": "boot"}
beating = pytest.mark.django_db(transaction=True)
of_rows = pytest.mark.django_db


@pytest.fixture(autouse=True)
def patience(settings: Settings) -> None:
    """A machine that is busy with other tests is not silent; LONG is."""
    settings.KEEPSTATE_HOST_SILENT_SECONDS = 120


@pytest.fixture
def beats(host: Path) -> Iterator[tuple[Heartbeat, Heartbeat]]:
    """Of the vm worker and of the io worker of one host."""
    claim(**FACTS)
    both = Heartbeat(vm=True), Heartbeat()
    yield both
    for one in both:
        one._close()


def heard_long_ago() -> None:
    Host.objects.update(vm_heard_at=F("vm_heard_at") - LONG)


def misses(host_id: str = HOST) -> None:
    """As its io worker's beat finds it."""
    Host.objects.filter(id=host_id).update(vm_heard_at=Now() - LONG, vm_missing_at=Now())


def is_back(host_id: str = HOST) -> None:
    Host.objects.filter(id=host_id).update(vm_heard_at=Now(), vm_missing_at=None)


def another_host() -> None:
    Host.objects.create(id=OTHER, memory_bytes=1024 * GIB, cpus=2, boot_id="boot")
    HostPin.objects.create(host_id=OTHER, pin=Pin.objects.get())


def boot(owner: Tenant) -> Operation:
    return sessions.create(owner.account, Wanted(image=IMAGE), Asked())


def resume(owner: Tenant) -> Operation:
    parked = session_row(owner.account, SessionState.PARKED, saved=True, host_id="")
    return sessions.resume(parked, checkpoint_id=None, asked=Asked())


def placed(*operations: Operation) -> list[str]:
    return [Operation.objects.get(id=one.id).host_id for one in operations]


@beating
def test_the_hosts_other_worker_misses_it_and_its_own_first_beat_takes_that_back(beats: tuple[Heartbeat, Heartbeat]) -> None:
    vm, io = beats
    vm.beat()
    io.beat()
    assert begins_machines().exists()
    heard_long_ago()
    io.beat()
    assert (alive().exists(), begins_machines().exists()) == (True, False)
    vm.beat()
    assert begins_machines().exists()
    io.beat()
    assert begins_machines().exists()


@beating
def test_one_that_was_never_heard_of_is_not_missed_for_its_release_may_not_tell(beats: tuple[Heartbeat, Heartbeat]) -> None:
    _, io = beats
    io.beat()
    assert begins_machines().exists()


@beating
def test_it_is_not_missed_for_a_time_in_which_its_host_was_not_heard_of_either(beats: tuple[Heartbeat, Heartbeat]) -> None:
    vm, io = beats
    vm.beat()
    heard_long_ago()
    Host.objects.update(heartbeat_at=F("heartbeat_at") - LONG)
    io.beat()
    assert begins_machines().exists(), "the database was away; the vm worker's beat may be the next"
    io.beat()
    assert not begins_machines().exists()


@beating
def test_a_host_that_is_put_back_to_the_release_before_is_missed_no_longer_than_a_silence(beats: tuple[Heartbeat, Heartbeat]) -> None:
    vm, io = beats
    vm.beat()
    heard_long_ago()
    io.beat()
    Host.objects.update(vm_missing_at=F("vm_missing_at") - LONG, heartbeat_at=F("heartbeat_at") - LONG)
    with connection.cursor() as cursor:  # its beat
        cursor.execute("UPDATE workers_host SET heartbeat_at = clock_timestamp(), resting_until = NULL")
    assert begins_machines().exists()


@beating
def test_one_that_is_stopped_in_order_is_missed_only_if_it_is_not_back_within_a_silence(beats: tuple[Heartbeat, Heartbeat]) -> None:
    vm, io = beats
    vm.beat()
    vm.leave()
    vm.beat()
    io.beat()
    assert begins_machines().exists(), "a restart is no reason to place anything anew"
    heard_long_ago()
    vm.beat()
    assert not begins_machines().exists(), "while it ends its work it takes no other"


@of_rows
def test_its_start_is_heard_at_once_and_the_start_of_another_worker_is_not_taken_for_it(host: Path) -> None:
    claim(**FACTS, vm=True)
    heard_long_ago()
    Host.objects.update(heartbeat_at=F("heartbeat_at") - LONG)
    claim(**FACTS)
    assert begins_machines().exists(), "all of it was away, and comes back"
    claim(**FACTS)
    assert not begins_machines().exists()
    claim(**FACTS, vm=True)
    assert begins_machines().exists()


@of_rows
def test_new_work_goes_to_other_hosts_and_what_nobody_has_begun_is_placed_anew(owner: Tenant) -> None:
    left = [boot(owner), resume(owner)]
    running = session_row(owner.account, saved=True)
    save = sessions.checkpoint(running, stop=False, reason="", asked=Asked())
    another_host()
    misses()
    assert placed(boot(owner), resume(owner)) == [OTHER] * 2
    assert place_waiting() == 2
    assert placed(*left, save) == [OTHER, OTHER, HOST], "what its machine is asked stays"


@of_rows
def test_where_no_other_host_can_it_keeps_what_it_has_and_what_is_asked_waits_and_says_so(owner: Tenant) -> None:
    kept = boot(owner)
    misses()
    asked = boot(owner)
    told = waiting.shown_progress(asked)["waiting"]
    assert (told["for"], told["reason"]) == ("no_host", "No host that could take it answers. It begins as soon as one is back.")
    assert place_waiting() == 0
    assert placed(kept, asked) == [HOST, ""]
    is_back()
    assert place_waiting() == 1
    assert placed(kept, asked) == [HOST] * 2


@of_rows
def test_a_draining_host_without_its_vm_worker_is_waited_for_as_one_that_drains(owner: Tenant) -> None:
    misses()
    Host.objects.update(draining=True)
    assert boot(owner).waits_for == "draining"


@of_rows
def test_an_attempt_that_died_with_it_is_made_elsewhere_in_a_new_epoch(owner: Tenant) -> None:
    operation = boot(owner)
    late = leases.claim(operation.id, HOST, host_id=HOST)
    assert late is not None
    Session.objects.update(host_id=HOST, epoch=1)
    Operation.objects.update(lease_expires_at=F("lease_expires_at") - LONG)
    another_host()
    assert place_waiting() == 0
    misses()
    assert place_waiting() == 1
    operation.refresh_from_db()
    operation.session.refresh_from_db()
    assert (operation.host_id, operation.session.host_id, operation.session.epoch) == (OTHER, OTHER, 2)
    with pytest.raises(leases.LeaseLost):
        leases.renew(late)


@of_rows
def test_it_is_no_target_of_a_move_and_no_loss_of_its_machines(fleet: Tenant) -> None:
    session = session_row(fleet.account, saved=True)
    assert targets.of([session])[session.id].able == (OTHER,)
    misses(OTHER)
    assert targets.of([session])[session.id].able == ()
    Host.objects.update(vm_heard_at=Now() - LONG, vm_missing_at=Now() - timedelta(seconds=1))
    assert (turn(), is_lost(HOST), is_lost(OTHER)) == (0, False, False)


@of_rows
def test_command_and_admin_say_for_how_long_it_was_not_heard_of(owner: Tenant) -> None:
    misses()
    out = StringIO()
    call_command("host", "list", stdout=out)
    call_command("host", "show", HOST, stdout=out)
    page = "".join(str(part.content) for part in host_page.of(Host.objects.get()))
    says = re.compile(r"its vm worker has not been heard of for \d{3} s: takes no new work")
    assert (len(says.findall(out.getvalue())), len(says.findall(page))) == (2, 1)
    assert "vm_silent" in page
