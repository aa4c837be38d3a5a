"""A session that was parked to be moved and lies there is brought back: where there is room, and whatever keeps another one."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import F

from sessions_app.models import Operation, Session
from sessions_app.services.lifecycle import MOVE
from sessions_app.states import OperationKind, OperationState, SessionState
from tests.support.fleet import GIB, HOST, Tenant, session_row
from tests.support.threads import at_once
from workers.fleet import stranded, turn
from workers.fleet.stranded import bring_back
from workers.host.room import room
from workers.models import Host
from workers.operations.parking import MOVING

pytestmark = pytest.mark.django_db(transaction=True)


def stranded_session(owner: Tenant, gib: int = 1) -> Session:
    """Its save for a move was published and its worker died then: it was parked, and nobody has asked for its resume."""
    session = session_row(owner.account, SessionState.PARKED, saved=True, host_id="", memory_bytes=gib * GIB, park_reason=MOVING)
    asked = {"by": MOVE, "from": HOST, "to": "", "stop": True, "cut": False}
    Operation.objects.create(
        account=owner.account, session=session, kind=OperationKind.CHECKPOINT, queue="", state=OperationState.FAILED, parameters=asked
    )
    return session


def asked(session: Session) -> Operation:
    return Operation.objects.get(session=session, state=OperationState.QUEUED)


def test_it_goes_on_where_it_was_also_on_a_host_that_drains(owner: Tenant) -> None:
    session = stranded_session(owner)
    Host.objects.update(draining=True)
    assert bring_back() == 1
    assert (asked(session).host_id, asked(session).reserved_bytes) == (HOST, GIB)


def test_room_that_was_promised_to_others_since_is_not_promised_twice(owner: Tenant) -> None:
    session = stranded_session(owner, gib=2)
    Host.objects.update(offered_bytes=4 * GIB)
    session_row(owner.account, memory_bytes=3 * GIB)
    assert bring_back() == 1
    assert (asked(session).host_id, asked(session).waits_for) == ("", "no_room")
    assert room(Host.objects.all()) == {HOST: GIB}


def test_one_that_somebody_holds_is_passed_over_and_not_waited_for(owner: Tenant) -> None:
    free, held = stranded_session(owner), stranded_session(owner)
    with transaction.atomic():
        Session.objects.select_for_update().get(id=held.id)
        assert at_once(1, lambda _: bring_back()) == [1]
    assert asked(free).host_id == HOST


def test_one_that_cannot_be_brought_back_never_keeps_the_others(owner: Tenant) -> None:
    free, odd = stranded_session(owner), stranded_session(owner)
    Operation.objects.filter(session=odd).update(parameters={"by": MOVE})
    Session.objects.filter(id=odd.id).update(last_activity_at=F("last_activity_at") + timedelta(seconds=1))
    assert bring_back() == 1
    assert asked(free).host_id == HOST


def test_a_turn_of_which_a_part_failed_does_the_others_and_ends_with_the_error(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> int:
        raise ValueError("broken")

    session = stranded_session(owner)
    monkeypatch.setattr(turn, "PARTS", (broken, stranded.bring_back))
    with pytest.raises(ValueError, match="broken"):
        turn.take()
    assert asked(session)
