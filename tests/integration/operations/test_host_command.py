"""`manage.py host`: a host's life as an operator leads it, from its place in the fleet to its end."""

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from sessions_app.models import ServiceRecord, Session
from tests.integration.operations.test_move import work_through
from tests.integration.operations.world import HOST, OTHER, World
from workers.fleet.moves import move_on
from workers.host.claim import HostRefused
from workers.host.enrol import NEVER
from workers.host.register import register
from workers.models import FormerPin, Host, HostPin


def host(*words: str) -> str:
    out = StringIO()
    call_command("host", *words, stdout=out)
    return out.getvalue()


def told(*words: str) -> Any:
    return json.loads(host(*words, "--json"))


def states() -> dict[str, str]:
    return {one["id"]: one["state"] for one in told("list")["hosts"]}


def written() -> list[str]:
    return list(ServiceRecord.objects.filter(kind="operator").order_by("id").values_list("type", flat=True))


def test_a_host_is_enrolled_before_its_workers_start_and_is_no_place_for_work_until_then(
    world: World, at_host: Callable[[str], None]
) -> None:
    assert "./keepstate host --id h-three" in host("enrol", "h-three", "--label", "rack=a1", "--offer-mib", "256")
    assert states() == {HOST: "alive", OTHER: "alive", "h-three": "enrolled"}
    assert "not heard of" not in host("show", "h-three")
    at_host("h-three")
    row = register()
    assert (states()["h-three"], row.labels, row.offered_bytes) == ("alive", {"rack": "a1"}, 256 << 20)
    with pytest.raises(CommandError, match="in the fleet already"):
        host("enrol", "h-three")
    with pytest.raises(CommandError, match="no host id"):
        host("enrol", "../h")
    assert written() == ["operator.enrol"]


def test_labels_and_what_it_offers_are_changed(world: World) -> None:
    assert "disk=fast rack=a1" in host("label", HOST, "rack=a1", "disk=fast")
    assert "rack=a2" in host("label", HOST, "rack=a2", "disk-")
    assert [one["id"] for one in told("list", "--label", "rack=a2")["hosts"]] == [HOST]
    assert told("list", "--label", "rack=a1")["hosts"] == []
    host("offer", HOST, "64")
    assert told("show")["offered_bytes"] == 64 << 20
    host("offer", HOST, "default")
    assert Host.objects.get().offered_bytes is None
    with pytest.raises(CommandError, match="not a label"):
        host("label", HOST, "a b=c")
    assert written() == ["operator.label"] * 2 + ["operator.offer"] * 2


def test_a_host_is_drained_shows_why_its_sessions_are_there_and_takes_work_again(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    Host.objects.filter(id=OTHER).update(offered_bytes=1)
    host("drain", HOST, "--move")
    assert states()[HOST] == "moving"
    assert f"no room for 128 MiB on {OTHER}" in host("show", HOST)
    with pytest.raises(CommandError, match="still on h-one: 1; on their way elsewhere: 0; after 0 s"):
        host("drain", HOST, "--move", "--wait", "0")
    host("undrain", HOST)
    assert states()[HOST] == "alive"
    with pytest.raises(CommandError, match="takes work already"):
        host("undrain", HOST)


def test_a_host_with_machines_is_not_retired_and_one_without_is_and_starts_no_more(
    world: World, session: Session, at_host: Callable[[str], None]
) -> None:
    with pytest.raises(CommandError, match="It was not retired"):
        host("retire", HOST)
    host("drain", HOST, "--move")
    assert move_on() == 1
    work_through(session, at_host)
    assert "has no machines" in host("drain", HOST, "--move", "--wait", "0")
    pin = HostPin.objects.get(host_id=HOST).pin_id
    assert "is retired" in host("retire", HOST)
    assert states() == {OTHER: "alive"}
    at_host(HOST)
    with pytest.raises(HostRefused, match="was retired"):
        register()
    assert (FormerPin.objects.get().host_id, told("pins")[0]["hosts"]) == (HOST, {OTHER: "alive"})
    assert told("pins")[0] | {"former": {}} == {
        "pin": pin,
        "architecture": session.architecture,
        "hosts": {OTHER: "alive"},
        "former": {},
        "checkpoints": 1,
        "sessions": 1,
        "held": True,
    }
    host("enrol", HOST)
    assert register().retired_at is None


def test_a_host_that_is_gone_is_declared_lost_and_one_that_is_heard_of_is_not(world: World, session: Session) -> None:
    with pytest.raises(CommandError, match="its workers are heard of"):
        host("lost", HOST)
    Host.objects.update(heartbeat_at=NEVER)
    assert "its 1 sessions go on elsewhere" in host("lost", HOST)
    assert states()[HOST] == "lost"


def test_one_session_is_moved_and_the_figures_are_told(world: World, session: Session, at_host: Callable[[str], None]) -> None:
    with pytest.raises(CommandError, match="h-none cannot take it; h-two could"):
        host("move", session.short_id, "--to", "h-none")
    assert "is saved and stopped on h-one, and resumed on h-two" in host("move", session.short_id, "--to", OTHER)
    with pytest.raises(CommandError, match="was busy for 0 s"):
        host("move", session.short_id, "--wait", "0")
    work_through(session, at_host)
    assert (session.host_id, written()) == (OTHER, ["operator.move"])


def test_a_host_that_nobody_knows_is_told_so(world: World) -> None:
    with pytest.raises(CommandError, match="no host h-none"):
        host("show", "h-none")
    with pytest.raises(CommandError, match="No session begins"):
        host("move", "0" * 12)


def test_this_hosts_page_shows_its_pin_its_machines_and_its_cache(world: World, session: Session) -> None:
    world.save(session)
    page = host()
    assert f"machine   {session.id}.1 running" in page
    assert "cache     memory" in page
    assert "cleared" in host("clear-cache")
    assert "cache     memory   0 images" in host()
