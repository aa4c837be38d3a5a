"""Deletion by plan: what is shown, what makes it stale, and what the answer tells."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints_app.models import Manifest, ManifestEdge, Pack, PackEdge
from sessions_app.models import Plan, Session
from sessions_app.services import session_deletion
from sessions_app.states import SessionState
from tests.support.api import Caller, error_of
from tests.support.fleet import Tenant, checkpoint_row, session_row
from tests.support.worker import work


def planned(api: Caller, session: Session) -> dict:
    made = api("POST", f"/api/v2/sessions/{session.id}/deletion-plan", {})
    assert made.status_code == 201, made.json()
    return made.json()["data"]


def delete(api: Caller, session: Session, plan_id: str, body: object = None):
    return api("DELETE", f"/api/v2/sessions/{session.id}?plan_id={plan_id}", body)


def test_a_plan_shows_what_would_go_and_changes_nothing(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, saved=True)
    fork = session_row(owner.account, SessionState.PARKED, parent_id=session.id)
    before = Session.objects.filter(id=session.id).values().get()
    shown = planned(api, session)["plan"]
    assert (shown["checkpoints"], shown["newest_checkpoint_id"], shown["running_machine"]) == (1, session.head_checkpoint_id, True)
    assert shown["forks"] == {"count": 1, "ids": [fork.id]}
    assert shown["retention"]["checkpoint_content"] == "erased"
    assert Session.objects.filter(id=session.id).values().get() == before


def test_stored_bytes_count_what_only_this_session_holds_and_are_not_guessed_for_the_rest(api: Caller, owner: Tenant) -> None:
    session, other = session_row(owner.account, saved=True), session_row(owner.account, saved=True)
    for name, holders in (("own", [session]), ("shared", [session, other])):
        pack = Pack.objects.create(id=name, account=owner.account, stored_bytes=100, unit_count=1, units=b"")
        for holder in holders:
            PackEdge.objects.create(checkpoint=holder.checkpoints.get(), pack=pack, units=b"")
    manifest = Manifest.objects.create(id="m", account=owner.account, stored_bytes=7)
    ManifestEdge.objects.create(checkpoint=session.checkpoints.get(), manifest=manifest)
    shown = planned(api, session)["plan"]
    assert (shown["stored_bytes_only_here"], shown["stored_bytes_at_least"], shown["packs_shared"]) == (None, 107, 1)
    PackEdge.objects.filter(checkpoint__session=other).delete()
    assert planned(api, session)["plan"]["stored_bytes_only_here"] == 207


def test_its_id_deletes_the_session_and_the_answer_tells_stop_and_purge_apart(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, saved=True)
    accepted = delete(api, session, planned(api, session)["id"], {"confirm": session.short_id})
    assert accepted.status_code == 202
    work(accepted.json()["data"]["operation_id"])
    key = "ksop_" + "1" * 32
    other = session_row(owner.account, saved=True)
    plan_id = planned(api, other)["id"]
    path = f"/api/v2/sessions/{other.id}?plan_id={plan_id}"
    work(api("DELETE", path, key=key).json()["data"]["operation_id"])
    told = api("DELETE", path, key=key).json()["data"]
    assert told["deleted"] is True
    assert told["runtime_cleanup"]["runtime_stop"]["state"] == "done"
    assert (told["tasks_cancelled"], told["agents_removed"], told["results_deleted"]) == (None, None, None)


@pytest.mark.parametrize("grown", ["a checkpoint", "a fork", "a machine"])
def test_a_plan_is_stale_once_there_is_more_to_lose(api: Caller, owner: Tenant, grown: str) -> None:
    session = session_row(owner.account, SessionState.PARKED, saved=True)
    plan_id = planned(api, session)["id"]
    if grown == "a checkpoint":
        checkpoint_row(session)
    elif grown == "a fork":
        session_row(owner.account, parent_id=session.id)
    else:
        Session.objects.filter(id=session.id).update(runtime_state=SessionState.RUNNING)
    refused = delete(api, session, plan_id)
    assert (refused.status_code, error_of(refused)["code"]) == (409, "ks_plan_stale")
    assert not session.operations.exists()
    assert Plan.objects.get().executed_at is None


def test_a_plan_holds_while_the_session_is_busy_and_its_revision_grows(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account, saved=True)
    plan_id = planned(api, session)["id"]
    Session.objects.filter(id=session.id).update(runtime_state=SessionState.CHECKPOINTING, revision=9)
    assert delete(api, session, plan_id).status_code == 202


@pytest.mark.parametrize(
    ("plan_id", "body", "code"),
    [("", None, "ks_plan_required"), ("dplan_none", None, "ks_not_found"), (None, {"confirm": "other"}, "ks_confirmation_mismatch")],
)
def test_nothing_is_deleted_without_the_plan_or_with_another_name_typed(
    api: Caller, owner: Tenant, plan_id: str | None, body: object, code: str
) -> None:
    session = session_row(owner.account, saved=True)
    refused = delete(api, session, planned(api, session)["id"] if plan_id is None else plan_id, body)
    assert error_of(refused)["code"] == code
    assert not session.operations.exists()


def test_a_plan_asks_about_the_session_alone_however_many_others_there_are(owner: Tenant) -> None:
    session = session_row(owner.account, saved=True)
    session_deletion.make_plan(session)  # what is asked once for a process
    with CaptureQueriesContext(connection) as few:
        session_deletion.make_plan(session)
    for _ in range(20):
        session_row(owner.account, saved=True)
    with CaptureQueriesContext(connection) as many:
        session_deletion.make_plan(session)
    assert len(few) == len(many)
