"""POST /api/v2/preflight: what a run needs and lacks; nothing is made."""

from typing import Any

import pytest
from django.apps import apps

from sessions_app.models import ApiToken
from sessions_app.services import dispatch
from tests.support.api import Caller
from tests.support.fleet import Tenant
from workers.models import Host

PATH = "/api/v2/preflight"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Whether the broker answers."""
    known = {"answers": True}
    monkeypatch.setattr(dispatch, "answers", lambda: known["answers"])
    return known


def _rows() -> dict[str, int]:
    return {model._meta.label: model._default_manager.count() for model in apps.get_models() if model is not ApiToken}


def _asked(api: Caller, **body: Any) -> dict[str, Any]:
    answer = api("POST", PATH, body)
    assert answer.status_code == 200, answer.content
    data: dict[str, Any] = answer.json()["data"]
    return {**data, "by_name": {one["check"]: one for one in data["checks"]}}


def test_what_is_in_order_passes_and_nothing_at_all_is_written(api: Caller, owner: Tenant, broker: dict[str, bool]) -> None:
    before = _rows()
    found = _asked(api, image="tiny", workspace_bytes=1000, workspace_files=3)
    assert _rows() == before
    assert found["ready"] is True
    assert {name: one["status"] for name, one in found["by_name"].items()} == dict.fromkeys(
        ["token", "image", "host", "quota", "workspace_bytes", "workspace_files", "broker"], "pass"
    )
    assert (found["account_id"], found["credit_microusd"]) == (owner.account.id, None)
    assert found["registry_version"] == api("GET", "/api/capabilities").json()["data"]["registry_version"]


@pytest.mark.parametrize(
    ("body", "check"),
    [
        ({"image": "no-such"}, "image"),
        ({"mode": "agent"}, "mode"),
        ({"workspace_bytes": 10**12}, "workspace_bytes"),
        ({"memory_mib": 1}, "image"),
    ],
)
def test_what_lacks_blocks_and_says_what_to_do(api: Caller, broker: dict[str, bool], body: dict[str, Any], check: str) -> None:
    found = _asked(api, **body)
    assert found["ready"] is False
    assert found["by_name"][check]["status"] == "block"
    assert found["by_name"][check]["detail"]


def test_a_fleet_that_takes_no_work_now_is_a_warning_for_what_is_asked_waits(api: Caller, broker: dict[str, bool]) -> None:
    Host.objects.update(draining=True)
    found = _asked(api, image="tiny")
    assert (found["by_name"]["host"]["status"], found["ready"]) == ("warn", True)
    assert "draining" in found["by_name"]["host"]["detail"]


def test_a_fleet_that_is_away_blocks(api: Caller, broker: dict[str, bool]) -> None:
    Host.objects.all().delete()
    assert _asked(api, image="tiny")["by_name"]["host"]["status"] == "block"


def test_a_broker_that_is_away_is_a_warning_for_what_is_asked_is_kept(api: Caller, broker: dict[str, bool]) -> None:
    broker["answers"] = False
    found = _asked(api, image="tiny")
    assert (found["by_name"]["broker"]["status"], found["ready"]) == ("warn", True)


def test_what_cannot_be_judged_is_told_and_never_green(api: Caller, broker: dict[str, bool]) -> None:
    found = _asked(api, image="no-such", provider="anthropic", check_command="true", ladder=["small", "large"])
    told = {line.partition(":")[0] for line in found["not_checked"]}
    assert told == {"host", "workspace_bytes", "workspace_files", "credit", "check_command", "ladder"}
    assert not told & set(found["by_name"])
