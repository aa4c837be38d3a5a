"""Whatever is asked, ended, drained and silenced, and in whatever order: no host is promised more than it offers, and nothing is lost."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints_app.models import Pin
from sessions_app.errors import Conflict, FleetUnavailable
from sessions_app.models import Operation, Session
from sessions_app.services import cancel, fork, waiting
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from sessions_app.states import OPERATION_ACTIVE, OperationKind, OperationState, SessionState
from tests.support.fleet import HOST, IMAGE, Tenant, session_row
from tests.support.threads import at_once
from tests.support.waiting import until, waits_for_a_lock
from workers.fleet.waiting import place_waiting
from workers.host import enrol
from workers.host.liveness import silent_after
from workers.host.room import room
from workers.models import Host, HostPin

GIB = 1 << 30
pytestmark = pytest.mark.django_db(transaction=True)


def boot(owner: Tenant, gib: int) -> Operation:
    return sessions.create(owner.account, Wanted(image=IMAGE, memory_mib=gib << 10), Asked())


def parked(owner: Tenant, gib: int) -> Session:
    return session_row(owner.account, SessionState.PARKED, saved=True, host_id="", memory_bytes=gib * GIB)


def fleet(offered_gib: int) -> list[str]:
    Host.objects.update(offered_bytes=offered_gib * GIB)
    Host.objects.create(id="h-two", memory_bytes=GIB, offered_bytes=offered_gib * GIB, cpus=2, boot_id="boot")
    HostPin.objects.create(host_id="h-two", pin=Pin.objects.get())
    return [HOST, "h-two"]


def test_of_many_requests_at_once_none_takes_the_room_of_another(owner: Tenant) -> None:
    fleet(3)
    sleeping = [parked(owner, 2) for _ in range(8)]

    def ask(number: int) -> Operation:
        if number % 4 == 0:
            return fork.ask(sleeping[number], children=2, checkpoint_id=None, asked=Asked())
        if number % 2:
            return sessions.resume(sleeping[number], checkpoint_id=None, asked=Asked())
        return boot(owner, 2)

    asked = at_once(8, ask)
    assert min(room(Host.objects.all()).values()) >= 0
    assert [one.kind for one in asked if one.reserved_bytes and one.host_id], "some have got a host"
    assert len([one for one in asked if one.waits_for]) == 4, "each host has room for one of the six machines"


class Model:
    """What should be true, beside the rows: which operations were asked for, and who stands before whom."""

    def __init__(self, owner: Tenant):
        self.owner, self.hosts = owner, fleet(4)
        self.asked: set[str] = set()
        self.away: set[str] = set()

    def step(self, what: str, number: int) -> None:
        act: Callable[[int], None] = getattr(self, f"_{what}")
        act(number)
        self.judge()

    def judge(self) -> None:
        assert min(room(Host.objects.all()).values()) >= 0, "no host is promised more than it offers"
        active = Operation.objects.filter(state__in=OPERATION_ACTIVE)
        assert {one.id for one in active} == self.asked, "nothing is lost, and nothing comes of itself"
        for one in active:
            assert bool(one.host_id) != bool(one.waits_for), "it has a host or waits for one"
            assert one.reserved_bytes == one.session.memory_bytes, "what it needs is known as long as it is active"

    def _boot(self, number: int) -> None:
        self._ask(lambda: boot(self.owner, 1 + number % 3))

    def _resume(self, number: int) -> None:
        self._ask(lambda: sessions.resume(parked(self.owner, 1 + number % 3), checkpoint_id=None, asked=Asked()))

    def _ask(self, ask: Callable[[], Operation]) -> None:
        with suppress(FleetUnavailable):  # where both hosts are away
            self.asked.add(ask().id)

    def _begin(self, number: int) -> None:
        one = Operation.objects.filter(state=OperationState.QUEUED).exclude(host_id="").order_by("accepted_at").first()
        if one:
            state = SessionState.PROVISIONING if one.kind == OperationKind.BOOT else SessionState.RESUMING
            Operation.objects.filter(id=one.id).update(state=OperationState.RUNNING, attempt=1, lease_expires_at=Now())
            Session.objects.filter(id=one.session_id).update(host_id=one.host_id, runtime_state=state)

    def _run(self, number: int) -> None:
        one = Operation.objects.filter(state=OperationState.RUNNING).order_by("accepted_at").first()
        if one:
            self._end(one, OperationState.SUCCEEDED)
            Session.objects.filter(id=one.session_id).update(runtime_state=SessionState.RUNNING)

    def _park(self, number: int) -> None:
        session = Session.objects.filter(runtime_state=SessionState.RUNNING).order_by("id").first()
        if session:
            with transaction.atomic():
                sessions.move(session, [SessionState.RUNNING], SessionState.FAILED, source="test", type_="session.failed", host_id="")

    def _fail(self, number: int) -> None:
        one = Operation.objects.filter(state=OperationState.RUNNING).order_by("accepted_at").first()
        if one:
            self._end(one, OperationState.FAILED)
            Session.objects.filter(id=one.session_id).update(runtime_state=SessionState.FAILED, host_id="")

    def _cancel(self, number: int) -> None:
        one = waiting.line().first()
        if one:
            cancel.cancel(one)
            self.asked.discard(one.id)

    def _drain(self, number: int) -> None:
        host = Host.objects.get(id=self.hosts[number % 2])
        Host.objects.filter(id=host.id).update(draining=not host.draining)

    def _silence(self, number: int) -> None:
        """It falls silent, or is heard of again."""
        name, length = self.hosts[number % 2], silent_after() + timedelta(seconds=1)
        Host.objects.filter(id=name).update(heartbeat_at=F("heartbeat_at") + (length if name in self.away else -length))
        self.away ^= {name}

    def _vm_worker(self, number: int) -> None:
        """A host loses its vm worker, or that is back."""
        host = Host.objects.filter(id=self.hosts[number % 2])
        host.update(vm_missing_at=Now() if host.get().vm_missing_at is None else None)

    def _end(self, one: Operation, state: OperationState) -> None:
        Operation.objects.filter(id=one.id).update(state=state)
        self.asked.discard(one.id)

    def _turn(self, number: int) -> None:
        before = list(waiting.line().values_list("id", "reserved_bytes"))
        place_waiting()
        left = set(waiting.line().values_list("id", flat=True))
        for position, (placed, size) in enumerate(before):
            if placed not in left:
                passed = [other for other, needs in before[:position] if other in left and needs <= size]
                assert not passed, "nobody is passed by one who needs as much"


STEPS = ["boot", "resume", "begin", "run", "park", "fail", "cancel", "drain", "silence", "vm_worker", "turn"]


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), min_size=10, max_size=30))
def test_no_host_is_promised_more_than_it_offers_and_nobody_is_forgotten_or_passed(owner: Tenant, steps: list[tuple[str, int]]) -> None:
    with transaction.atomic():
        model = Model(owner)
        for what, number in steps:
            model.step(what, number)
        transaction.set_rollback(True)


def test_a_host_is_not_retired_beside_an_operation_that_is_being_placed_there(owner: Tenant) -> None:
    def retire() -> str:
        try:
            enrol.retire(Host.objects.get(id=HOST), "op")
        except Conflict as refusal:
            return str(refusal.facts["operations"])
        finally:
            connection.close()
        return "retired"

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            boot(owner, 1)
            answer = pool.submit(retire)
            until(lambda: waits_for_a_lock() or answer.done(), 20, "the host's retirement waits for the placement, or is over")
        assert answer.result(20) == "1"
