"""No secret, prompt, command, file or token ever reaches a log: marks are planted in all of them, and all that is logged is searched."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from keepstate_site.settings import logs
from sessions_app.models import Operation
from sessions_app.states import SessionState
from tests.support.api import Caller, caller
from tests.support.fixtures import api, doorbells, owner
from tests.support.fleet import Tenant, session_row, tenant
from tests.support.worker import work

__all__ = ["api", "doorbells", "owner"]
pytestmark = pytest.mark.django_db

MARK = "planted-mark-7f3a"


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """All that any logger says, from DEBUG on, in the form in which the service writes it."""
    logs.configure(level="DEBUG", console=False)
    written = io.StringIO()
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and type(handler) is logging.StreamHandler:
            handler.setStream(written)
    yield written
    logs.configure(level="INFO", console=False)
    structlog.contextvars.clear_contextvars()


def flows(api: Caller, account: Tenant) -> None:
    """What a customer sends, right and wrong, with the mark in every place that is theirs."""
    session = session_row(account.account, SessionState.RUNNING, saved=True, name="n" + MARK)
    at = f"/api/sessions/{session.id}"
    asked = api("POST", f"{at}/exec", {"Cmd": f"echo {MARK} >&2; exit 3"}).json()["data"]["operation_id"]
    work(asked)
    Operation.objects.filter(id=asked).update(response={"output": MARK, "stderr": MARK})
    api("GET", f"/api/operations/{asked}")
    api("POST", f"{at}/checkpoint", {"Reason": MARK})
    api("POST", f"{at}/checkpoint", {"Reason": MARK, "Unknown" + MARK: MARK})
    api("POST", f"{at}/exec", b'{"Cmd": "' + MARK.encode())
    api("POST", "/api/sessions", {"Image": "no-" + MARK, "Name": "n" + MARK})
    api("GET", f"/api/v2/sessions/{session.id}/files/content?path=%2Froot%2F{MARK}")
    api("GET", f"/api/v2/sessions?cursor={MARK}")
    api("POST", "/api/v2/webhooks", {"url": f"https://example.com/{MARK}", "types": [MARK]})
    api("POST", "/api/v2/webhooks", {"url": f"https://user:{MARK}@example.com/"})
    Caller(f"ks_{MARK}")("GET", "/api/whoami")
    api("GET", "/api/whoami", Authorization=f"Basic {MARK}")
    api("GET", f"/api/{MARK}?token={MARK}", Cookie=f"sessionid={MARK}", X_Request_Id=MARK + " not plain")


def test_what_customers_send_is_in_no_line(api: Caller, owner: Tenant, logged: io.StringIO) -> None:
    flows(api, owner)
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert sum(line["event"] == "request" for line in lines) > 10  # there is evidence to judge
    assert all("request_id" in line for line in lines if line["event"] == "request")
    assert [line for line in lines if MARK in json.dumps(line)] == []


def test_a_live_token_is_in_no_line(owner: Tenant, logged: io.StringIO) -> None:
    other = tenant("other")
    caller(other)("GET", "/api/whoami")
    caller(other)("POST", "/api/tokens/revoke")
    caller(other)("GET", "/api/whoami")
    assert "request" in logged.getvalue()
    assert other.plain not in logged.getvalue()


def test_a_failure_inside_tells_its_cause_without_the_request(
    api: Caller, owner: Tenant, logged: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessions_app.services import session_list

    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError(f"postgresql://keepstate:{MARK}@db/keepstate refused, Bearer {MARK}")

    monkeypatch.setattr(session_list, "page", fail)
    answer = api("GET", "/api/v2/sessions")
    assert answer.status_code == 500
    assert MARK not in answer.content.decode()
    assert "a request failed unexpectedly" in logged.getvalue()
    assert MARK not in logged.getvalue()
