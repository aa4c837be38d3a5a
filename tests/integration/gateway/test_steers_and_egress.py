"""Steers are sealed and used once; egress policies name public hosts and nothing else."""

from typing import Any

import pytest
from django.db.models.functions import Now

from gateway_app.models import EgressLine, EgressPolicy, EgressSum, Steer
from gateway_app.services import egress, erasure
from sessions_app.models import ServiceRecord
from sessions_app.services import steps
from tests.integration.gateway.kept import call_row
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant, session_row


def test_a_steer_is_sealed_and_shown_as_hashes_alone(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    path = f"/api/v2/sessions/{session.id}/steers"
    kept = api("POST", path, {"text": "go left, quietly"}).json()["data"]
    assert (kept["state"], kept["call_id"]) == ("waiting", None)
    row = Steer.objects.get()
    assert steps.unseal.call(owner.account.id, bytes(row.sealed_text)) == b"go left, quietly"
    call = call_row(session, 1, 2, steer_id=row.id, body_sha256="a" * 64, sent_sha256="b" * 64)
    Steer.objects.update(used_at=call.started_at, call_id=call.id)
    answer = api("GET", path)
    (told,) = answer.json()["data"]["items"]
    assert (told["state"], told["body_sha256_before"], told["body_sha256_after"]) == ("used", "a" * 64, "b" * 64)
    assert "quietly" not in answer.content.decode() + str(list(session.events.values()))


@pytest.mark.parametrize("text", ["", "  ", "x" * (64 * 1024 + 1), "ü" * (33 * 1024), 5])
def test_a_steer_of_no_text_or_too_much_is_refused(api: Caller, owner: Tenant, text: Any) -> None:
    refused = api("POST", f"/api/v2/sessions/{session_row(owner.account).id}/steers", {"text": text})
    assert (refused.status_code, error_of(refused)["code"]) == (400, "ks_invalid")
    assert not Steer.objects.exists()


def put(api: Caller, session_id: str, host: Any, ports: Any = (443,), *, mode: str = "allow_list", revision: int = 0) -> Any:
    rules = [] if host is None else [{"host": host, "ports": list(ports)}]
    return api("PUT", f"/api/v2/sessions/{session_id}/egress", {"mode": mode, "rules": rules, "expected_revision": revision})


def test_a_policy_denies_until_hosts_are_named_and_each_change_is_recorded(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    before = api("GET", f"/api/v2/sessions/{session.id}/egress").json()["data"]
    assert (before["mode"], before["rules"], before["revision"], before["changed_at"]) == ("deny", [], 0, None)
    told = put(api, session.id, "*.example.com", (443, 8443)).json()["data"]
    assert (told["rules"], told["revision"]) == ([{"host": "*.example.com", "ports": [443, 8443]}], 1)
    assert put(api, session.id, "*.example.com", (443, 8443)).json()["data"]["revision"] == 1  # it is so already
    assert error_of(put(api, session.id, None, mode="deny"))["code"] == "ks_revision_conflict"
    assert put(api, session.id, None, mode="deny", revision=1).json()["data"]["rules"] == []
    assert session.events.filter(type="session.egress").count() == 2
    assert list(ServiceRecord.objects.filter(type="session.egress").values_list("facts__rules", flat=True)) == [1, 0]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.0.0.1", "8.8.8.8", "[::1]", "2130706433", "0x7f.1", "localhost", "a.localhost", "printer.local",
     "metadata.google.internal", "EXAMPLE.com", "*.com", "*", "a.*.com", "exa mple.com", "example.com.", "https://example.com", "-a.com",
     "a..com", "bücher.de", "a" * 64 + ".com"],
)  # fmt: skip
def test_what_is_no_name_of_a_public_host_is_refused(api: Caller, owner: Tenant, host: str) -> None:
    refused = put(api, session_row(owner.account).id, host)
    assert (refused.status_code, error_of(refused)["code"]) == (400, "ks_invalid")
    assert not EgressPolicy.objects.exists()


@pytest.mark.parametrize(("ports", "mode"), [((0,), "allow_list"), ((65536,), "allow_list"), ((), "allow_list"), ((443, 443), "allow_list"),
                                             ((True,), "allow_list"), ((443,), "deny"), ((443,), "all")])  # fmt: skip
def test_ports_and_modes_are_held_to_what_they_are(api: Caller, owner: Tenant, ports: Any, mode: str) -> None:
    assert put(api, session_row(owner.account).id, "example.com", ports, mode=mode).status_code == 400


def test_a_forks_child_may_connect_to_where_its_parent_may_now_and_has_used_nothing(api: Caller, owner: Tenant) -> None:
    parent, child, barred = (session_row(owner.account) for _ in range(3))
    put(api, parent.id, "example.com")
    EgressSum.objects.create(session=parent, connections=3)
    egress.inherit(parent, child)
    told = api("GET", f"/api/v2/sessions/{child.id}/egress").json()["data"]
    assert (told["rules"], told["revision"]) == ([{"host": "example.com", "ports": [443]}], 1)
    assert told["use"] == {"connections": 0, "refusals": 0, "sent_bytes": 0, "received_bytes": 0, "lines": []}
    assert ServiceRecord.objects.get(session_id=child.id).actor == "fork"
    egress.inherit(barred, parent)  # of one that was never set nothing is passed on
    assert EgressPolicy.objects.get(session=parent).mode == "allow_list"


def test_what_a_machine_connected_to_is_told_and_its_sums_outlive_it(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    EgressSum.objects.create(session=session, connections=2, refusals=1, sent_bytes=5, received_bytes=2**40)
    for host, outcome in (("example.com", "connected"), ("", "address")):
        EgressLine.objects.create(session=session, host=host, port=443, outcome=outcome, connections=1, last_at=Now())
    use = api("GET", f"/api/v2/sessions/{session.id}/egress").json()["data"]["use"]
    assert (use["connections"], use["received_bytes"], [one["outcome"] for one in use["lines"]]) == (2, 2**40, ["address", "connected"])
    told = erasure.erase_session(session)
    assert told == {"model_calls": 0, "egress_connections": 2, "egress_sent_bytes": 5, "egress_received_bytes": 2**40}
    assert not EgressLine.objects.exists()
    assert "egress_connections" not in erasure.erase_session(session)
