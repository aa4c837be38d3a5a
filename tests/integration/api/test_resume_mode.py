"""How memory comes back may be said with a resume; a session tells whether its machine runs ahead of its verification."""

import pytest

from sessions_app.models import Operation, Session
from sessions_app.states import SessionState
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant, session_row


@pytest.mark.parametrize("mode", ["whole", "lazy"])
def test_a_mode_that_was_said_reaches_the_worker(api: Caller, owner: Tenant, mode: str) -> None:
    session = session_row(owner.account, SessionState.PARKED, saved=True)
    response = api("POST", f"/api/sessions/{session.id}/resume", {"Mode": mode})
    assert response.status_code == 202, response.content
    assert Operation.objects.get(session=session).parameters["mode"] == mode


def test_without_one_the_host_decides(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.PARKED, saved=True)
    api("POST", f"/api/sessions/{session.id}/resume", {})
    assert "mode" not in Operation.objects.get(session=session).parameters


def test_another_word_is_refused_by_name(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.PARKED, saved=True)
    refused = api("POST", f"/api/sessions/{session.id}/resume", {"Mode": "soon"})
    assert refused.status_code == 400
    assert "Mode" in str(error_of(refused))
    assert not Operation.objects.filter(session=session).exists()


@pytest.mark.parametrize(("state", "told"), [(SessionState.RUNNING, True), (SessionState.FAILED, False)])
def test_a_session_is_verifying_only_while_it_has_a_machine(api: Caller, owner: Tenant, state: SessionState, told: bool) -> None:
    session = session_row(owner.account, state, saved=True)
    Session.objects.filter(id=session.id).update(verifying=True)
    assert api("GET", f"/api/v2/sessions/{session.id}").json()["data"]["verifying"] is told
