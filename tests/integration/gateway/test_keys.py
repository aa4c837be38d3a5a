"""Provider keys over the API: written once, shown as their last characters, bound by id, deleted by plan."""

from typing import Any

import pytest

from gateway_app.models import KeyBinding, ProviderKey
from gateway_app.services import binding
from sessions_app.models import Plan, RecordedRequest, ServiceRecord, SessionEvent
from sessions_app.services import fork_plan, steps
from sessions_app.services.operation import Asked
from sessions_app.states import SessionState
from tests.integration.gateway.kept import SECRET, key_of
from tests.support.api import Caller, caller, error_of, new_key
from tests.support.fleet import Tenant, session_row

PATH = "/api/v2/keys"
WANTED = {"provider": "anthropic", "secret": SECRET, "alias": "team"}


def made(api: Caller, **wanted: Any) -> dict[str, Any]:
    answer = api("POST", PATH, {**WANTED, **wanted}, key=new_key())
    assert answer.status_code == 201, answer.content
    return dict(answer.json()["data"])


def bind(api: Caller, session_id: str, keys: dict[str, Any], revision: int = 1) -> Any:
    return api("POST", f"/api/v2/sessions/{session_id}/bindings", {"keys": keys, "expected_revision": revision})


def test_a_key_is_kept_sealed_and_its_secret_is_nowhere_else(api: Caller, owner: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    row = made(api)
    assert set(row) == {"id", "provider", "alias", "last4", "enabled", "revision", "created_at", "updated_at"}
    assert (row["last4"], row["alias"], row["enabled"], row["revision"]) == ("0042", "team", True, 1)
    key = ProviderKey.objects.get()
    assert steps.unseal.call(owner.account.id, bytes(key.secret)) == SECRET.encode()
    api("PATCH", f"{PATH}/{row['id']}", {"secret": SECRET + "-2", "expected_revision": 1}, key=new_key())
    api("POST", f"{PATH}/{row['id']}/deletion-plan", {})
    everywhere = [api("GET", PATH).content, api("GET", f"{PATH}/{row['id']}").content, caplog.text.encode(), bytes(key.secret)]
    tables = (RecordedRequest, Plan, ServiceRecord, SessionEvent)
    everywhere += [str(list(model._default_manager.values())).encode() for model in tables]
    assert not [one for one in everywhere if b"planted" in one]


def test_one_request_under_its_key_makes_one_key_and_another_secret_is_another_request(api: Caller) -> None:
    key = new_key()
    first, again = (api("POST", PATH, WANTED, key=key) for _ in range(2))
    assert (again.json(), again["KS-Operation-Replayed"]) == (first.json(), "true")
    other = api("POST", PATH, {**WANTED, "secret": "sk-another-secret"}, key=key)
    assert (other.status_code, error_of(other)["code"]) == (409, "ks_idempotency_conflict")
    assert ProviderKey.objects.count() == 1
    plain = Asked(method="POST", path=PATH, idempotency_key=key, body=WANTED).body_digest
    assert RecordedRequest.objects.get().body_digest != plain  # secrets cannot be tried against what is kept


@pytest.mark.parametrize(
    "wrong",
    [{"provider": "openrouter"}, {"secret": "short"}, {"secret": "with a blank in it"}, {"secret": "x" * 8193}, {"secret": "sk-\nx: y"},
     {"alias": "x" * 49}, {"key": "x"}],
)  # fmt: skip
def test_a_key_that_is_no_key_is_refused_and_not_repeated(api: Caller, wrong: dict[str, str]) -> None:
    refused = api("POST", PATH, {**WANTED, **wrong})
    assert (refused.status_code, error_of(refused)["code"]) == (400, "ks_invalid")
    assert wrong.get("secret", "planted") not in refused.content.decode()
    assert not ProviderKey.objects.exists()


def test_a_secret_is_exchanged_in_place_and_what_is_bound_stays_bound(api: Caller, owner: Tenant) -> None:
    row, session = made(api), session_row(owner.account)
    bind(api, session.id, {"anthropic": row["id"]})
    changed = api("PATCH", f"{PATH}/{row['id']}", {"secret": "sk-new-secret-9999", "expected_revision": 1}).json()["data"]
    assert (changed["id"], changed["last4"], changed["revision"]) == (row["id"], "9999", 2)
    assert KeyBinding.objects.get().key.last4 == "9999"
    stale = api("PATCH", f"{PATH}/{row['id']}", {"enabled": False, "expected_revision": 1})
    assert (stale.status_code, error_of(stale)["code"], error_of(stale)["revision"]) == (409, "ks_revision_conflict", 2)
    assert list(ServiceRecord.objects.filter(type__startswith="key.").values_list("type", flat=True)) == ["key.created", "key.exchanged"]


def test_a_key_is_deleted_by_the_plan_that_showed_what_is_bound_to_it(api: Caller, owner: Tenant) -> None:
    row, sessions = made(api), [session_row(owner.account) for _ in range(2)]
    bind(api, sessions[0].id, {"anthropic": row["id"]})
    plan = api("POST", f"{PATH}/{row['id']}/deletion-plan", {}).json()["data"]
    assert plan["plan"]["bindings"] == {"count": 1, "sessions": [sessions[0].id]}
    bind(api, sessions[1].id, {"anthropic": row["id"]})
    assert error_of(api("DELETE", f"{PATH}/{row['id']}?plan_id={plan['id']}"))["code"] == "ks_plan_stale"
    assert error_of(api("DELETE", f"{PATH}/{row['id']}"))["code"] == "ks_plan_required"
    plan = api("POST", f"{PATH}/{row['id']}/deletion-plan", {}).json()["data"]
    deleted = api("DELETE", f"{PATH}/{row['id']}?plan_id={plan['id']}").json()["data"]
    assert deleted == {"id": row["id"], "deleted": True, "bindings_dropped": 2}
    assert not KeyBinding.objects.exists()
    assert api("GET", f"{PATH}/{row['id']}").status_code == 404


def test_the_plan_of_one_key_deletes_no_other(api: Caller) -> None:
    first, second = made(api), made(api)
    plan = api("POST", f"{PATH}/{first['id']}/deletion-plan", {}).json()["data"]
    assert error_of(api("DELETE", f"{PATH}/{second['id']}?plan_id={plan['id']}"))["code"] == "ks_plan_stale"
    assert ProviderKey.objects.count() == 2


def test_a_session_is_bound_by_id_and_says_so(api: Caller, owner: Tenant) -> None:
    row, session = made(api), session_row(owner.account)
    told = bind(api, session.id, {"anthropic": row["id"]}).json()["data"]
    assert (told["keys"], told["revision"]) == ({"anthropic": row["id"]}, 2)
    assert bind(api, session.id, {"anthropic": row["id"]}).json()["data"]["revision"] == 2  # it is so already
    assert api("GET", f"/api/v2/sessions/{session.id}").json()["data"]["key_alias"] == "team"
    assert api("GET", f"/api/sessions/{session.id}/meter").json()["key_sources"] == ["anthropic:team"]
    assert bind(api, session.id, {"anthropic": None}, 2).json()["data"]["keys"] == {}


def test_a_key_that_is_foreign_disabled_or_of_another_provider_is_not_bound(api: Caller, owner: Tenant, stranger: Tenant) -> None:
    session, theirs, mine = session_row(owner.account), key_of(stranger.account), made(api)
    assert error_of(bind(api, session.id, {"anthropic": theirs.id}))["code"] == "ks_not_found"
    assert error_of(bind(api, session.id, {"openai": mine["id"]}))["code"] == "ks_invalid"
    assert error_of(bind(api, session.id, {"anthropic": mine["id"]}, 9))["code"] == "ks_revision_conflict"
    assert error_of(bind(api, session.id, {}))["code"] == "ks_invalid"
    api("PATCH", f"{PATH}/{mine['id']}", {"enabled": False, "expected_revision": 1})
    assert error_of(bind(api, session.id, {"anthropic": mine["id"]}))["code"] == "ks_key_disabled"
    assert not KeyBinding.objects.exists()
    assert bind(caller(stranger), session.id, {"anthropic": theirs.id}).status_code == 404


def test_a_forks_plan_shows_its_keys_and_is_stale_once_one_of_them_is_disabled(api: Caller, owner: Tenant) -> None:
    row, session = made(api), session_row(owner.account, SessionState.PARKED, saved=True)
    bind(api, session.id, {"anthropic": row["id"]})
    session.refresh_from_db()
    plan = fork_plan.make(session, checkpoint_id=session.head_checkpoint_id, children=1)
    assert plan.content["plan"]["keys"]["bindings"] == {"anthropic": row["id"]}
    api("PATCH", f"{PATH}/{row['id']}", {"enabled": False, "expected_revision": 1})
    decided = {"plan_id": plan.id, "plan_digest": plan.digest}
    assert error_of(api("POST", f"/api/v2/sessions/{session.id}/fork", decided))["code"] == "ks_plan_stale"
    child = session_row(owner.account)
    binding.inherit(session, child)
    assert binding.of_sessions([child.id]) == {}
