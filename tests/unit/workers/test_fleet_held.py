"""A fleet's turn waits for nobody: what another connection holds, in the middle of a commit, is the next turn's, and keeps nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from sessions_app.models import Operation
from sessions_app.services import session as sessions
from sessions_app.services.database import lock_number
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from tests.support.fleet import GIB, HOST, IMAGE, Tenant, session_row
from workers.fleet.lost import take_from_lost
from workers.fleet.moves import move_on
from workers.fleet.waiting import place_waiting
from workers.host.placement import LOCK
from workers.models import FleetWatch, Host, HostPin

pytestmark = pytest.mark.django_db(transaction=True)
OTHER, THIRD = "h-other", "h-third"
LONG = timedelta(hours=1)


@pytest.fixture(autouse=True)
def hosts(owner: Tenant) -> None:
    """Three with the same pin, all heard of."""
    for name in (OTHER, THIRD):
        Host.objects.create(id=name, memory_bytes=GIB, offered_bytes=4 * GIB, cpus=2, boot_id="boot")
        HostPin.objects.create(host_id=name, pin=HostPin.objects.get(host=HOST).pin)
    FleetWatch.objects.create(id=1, since=Now() - LONG, looked_at=Now())


@contextmanager
def standing_still(query: str, *values: object) -> Iterator[None]:
    """Another connection has done this and does not commit. Whoever waits for it gets an error in the end, as in the service."""
    with psycopg.connect(**connection.get_connection_params()) as other, connection.cursor() as cursor:
        other.execute(query, values)
        cursor.execute("SET lock_timeout = '2s'")
        yield
        cursor.execute("RESET lock_timeout")
        other.rollback()


def lost() -> set[str]:
    return set(Host.objects.filter(lost_at__isnull=False).values_list("id", flat=True))


def boot(owner: Tenant) -> Operation:
    return sessions.create(owner.account, Wanted(image=IMAGE, memory_mib=1024), Asked())


def states(*operations: Operation) -> list[str]:
    return [Operation.objects.get(id=one.id).state for one in operations]


def test_a_host_whose_row_is_held_keeps_no_other_from_being_judged() -> None:
    Host.objects.exclude(id=THIRD).update(heartbeat_at=Now() - LONG)
    with standing_still("UPDATE workers_host SET cpus = cpus WHERE id = %s", HOST):
        take_from_lost()
        assert lost() == {OTHER}
    take_from_lost()
    assert lost() == {HOST, OTHER}
    Host.objects.update(heartbeat_at=Now())
    with standing_still("UPDATE workers_host SET cpus = cpus WHERE id = %s", HOST):
        take_from_lost()
        assert lost() == {HOST}
    take_from_lost()
    assert lost() == set()


def test_what_waits_is_placed_by_the_next_turn_where_somebody_else_is_at_a_placement(owner: Tenant) -> None:
    Host.objects.update(draining=True)
    waits = boot(owner)
    Host.objects.update(draining=False)
    with standing_still("SELECT pg_advisory_xact_lock(%s)", lock_number(LOCK)):
        assert place_waiting() == 0
    assert place_waiting() == 1
    waits.refresh_from_db()
    assert waits.host_id != ""


def test_what_has_waited_too_long_and_is_held_keeps_no_other_from_its_end(owner: Tenant) -> None:
    Host.objects.update(draining=True)
    first, second = boot(owner), boot(owner)
    Operation.objects.update(due_at=F("due_at") - LONG)
    with standing_still("UPDATE sessions_app_operation SET attempt = attempt WHERE id = %s", first.id):
        assert place_waiting() == 1
        assert states(first, second) == ["queued", "failed"]
    assert place_waiting() == 1
    assert states(first) == ["failed"]


def test_a_session_that_is_held_keeps_no_other_from_being_moved(owner: Tenant) -> None:
    pin = HostPin.objects.get(host=HOST).pin_id
    first, second = (session_row(owner.account, pin_digest=pin, memory_bytes=GIB) for _ in range(2))
    Host.objects.filter(id=HOST).update(draining=True, moving=True, moving_since=Now())
    with standing_still("UPDATE sessions_app_session SET name = name WHERE id = %s", first.id):
        assert move_on() == 1
    assert list(Operation.objects.values_list("session_id", flat=True)) == [second.id]
