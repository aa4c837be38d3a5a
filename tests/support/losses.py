"""Two hosts, one of which is lost: clocks are moved in the rows."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from sessions_app.models import Operation, Session
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from tests.support.fleet import GIB, HOST, Tenant
from workers.fleet.lost import take_from_lost
from workers.models import FleetWatch, Host, HostPin

OTHER = "h-other"
LONG = timedelta(minutes=5)


@pytest.fixture
def fleet(owner: Tenant) -> Tenant:
    """Two hosts with the same pin, both heard of, and turns that have looked at them for long."""
    other = Host.objects.create(id=OTHER, memory_bytes=1024 * GIB, cpus=2, boot_id="boot")
    HostPin.objects.create(host=other, pin=HostPin.objects.get(host=HOST).pin)
    FleetWatch.objects.create(id=1, since=Now() - LONG, looked_at=Now())
    return owner


def silent(host_id: str = HOST) -> None:
    Host.objects.filter(id=host_id).update(heartbeat_at=Now() - LONG)


def is_lost(host_id: str = HOST) -> bool:
    return Host.objects.filter(id=host_id, lost_at__isnull=False).exists()


def turn() -> int:
    return take_from_lost()


def after_the_loss(session: Session) -> Session:
    silent()
    assert turn() == 1
    session.refresh_from_db()
    return session


def types(session: Session) -> list[str]:
    return list(session.events.order_by("number").values_list("type", flat=True))


def ask_save(session: Session, *, stop: bool = False) -> Operation:
    return sessions.checkpoint(session, stop=stop, reason="", asked=Asked())


def ended(operation: Operation) -> tuple[str, str]:
    operation.refresh_from_db()
    assert operation.lease_token is None
    return operation.state, (operation.error or {}).get("code", "")
