"""Hosts are the operator's: nothing that a customer reads of a session that was moved, and then lost its host, names one."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from sessions_app.models import Operation, ServiceRecord, Session, WebhookDelivery, WebhookEndpoint
from sessions_app.services import by_operator
from sessions_app.services import token as tokens
from sessions_app.states import OPERATION_ACTIVE
from tests.integration.operations.world import HOST, OTHER, World, events, succeeded
from tests.support.api import Caller, read
from workers.fleet.lost import take_from_lost
from workers.models import FleetWatch, Host


def test_a_customer_reads_of_a_move_and_of_a_loss_without_the_hosts_names(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    hook = WebhookEndpoint.objects.create(account=world.account, url="https://example.com", secret=b"s")
    move_there(session, at_host)
    lose(session)
    assert {"session.moved", "session.host_lost"} <= set(events(session))
    views = views_of(world, session)
    views["webhooks"] = list(WebhookDelivery.objects.filter(endpoint=hook).values_list("body", flat=True))
    assert all(views.values())
    assert {name for name, view in views.items() if names_a_host(view)} == set()
    told = {line.type: line.facts for line in ServiceRecord.objects.all()}
    assert (told["session.moved"]["from"], told["session.moved"]["to"]) == (HOST, OTHER)
    assert told["session.taken"]["host"] == OTHER
    assert told["operator.move"]["left"] == HOST


def move_there(session: Session, be: Callable[[str], None]) -> None:
    by_operator.move(session, "anna", OTHER)
    for _ in ("its save", "its resume"):
        asked = Operation.objects.get(session=session, state__in=OPERATION_ACTIVE)
        be(asked.host_id)
        succeeded(asked)
    be(HOST)


def lose(session: Session) -> None:
    FleetWatch.objects.create(id=1, since=Now() - timedelta(hours=1), looked_at=Now())
    Host.objects.filter(id=OTHER).update(heartbeat_at=Now() - timedelta(hours=1))
    assert take_from_lost() == 1
    session.refresh_from_db()
    assert session.failure is not None


def views_of(world: World, session: Session) -> dict[str, Any]:
    api = Caller(tokens.issue(world.account, "reader")[1])
    paths = {
        "session": f"/api/v2/sessions/{session.id}",
        "events": f"/api/v2/sessions/{session.id}/events?limit=200",
        "log": f"/api/v2/sessions/{session.id}/logs",
        "operations": "/api/v2/operations?limit=100",
        "record": "/api/v2/account/record?limit=100",
    }
    found = {name: answered(api, path) for name, path in paths.items()}
    found["export"] = [json.loads(line) for line in read(api("GET", "/api/v2/account/export")).splitlines()]
    return found


def answered(api: Caller, path: str) -> Any:
    answer = api("GET", path)
    assert answer.status_code == 200, answer.content
    return answer.json()


def names_a_host(view: Any) -> bool:
    return any(name in json.dumps(view) for name in (HOST, OTHER))
