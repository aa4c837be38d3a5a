"""What becomes of the sessions of a host that is lost, and of the work on it, state by state."""

from collections.abc import Callable

import pytest
from django.db.models.functions import Now

from checkpoints_app.states import CheckpointState
from sessions_app.models import Operation, Session
from sessions_app.services import fork, recovery_policy
from sessions_app.services import lease as leases
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.states import SessionState as S
from tests.support import worker
from tests.support.fleet import HOST, Tenant, checkpoint_row, session_row
from tests.support.losses import LONG, OTHER, after_the_loss, ask_save, ended, silent, turn, types
from workers.fleet.waiting import place_waiting
from workers.models import Host

pytestmark = pytest.mark.django_db


# -- what becomes of a session


@pytest.mark.parametrize("state", [S.RUNNING, S.CHECKPOINTING])
def test_a_session_whose_machine_is_gone_fails_and_its_resume_elsewhere_is_asked_for(fleet: Tenant, state: S) -> None:
    session = session_row(fleet.account, state, saved=True)
    began = checkpoint_row(session, CheckpointState.UPLOADING)
    after_the_loss(session)
    assert (session.runtime_state, session.epoch, session.host_id) == ("failed", 2, "")
    assert session.failure is not None
    assert session.failure["code"] == "ks_host_lost"
    assert session.failure["checkpoint_id"] == session.head_checkpoint_id
    assert session.failure["seconds_since_checkpoint"] >= 0
    assert "session.host_lost" in types(session)
    began.refresh_from_db()
    assert began.state == CheckpointState.FAILED
    resume = session.operations.get(kind="resume")
    assert (resume.host_id, resume.parameters["by"], resume.reserved_bytes) == (OTHER, "host_lost", session.memory_bytes)
    assert session.failure["next_action"].endswith(resume.id + ".")
    assert turn() == 0, "a second turn finds nothing to do"


def test_a_session_that_was_never_saved_fails_and_says_so(fleet: Tenant) -> None:
    session = after_the_loss(session_row(fleet.account))
    assert session.failure is not None
    assert "Nothing of the session had been saved" in session.failure["message"]
    assert not session.operations.exists()


def test_a_session_whose_owner_does_not_want_it_is_not_resumed(fleet: Tenant) -> None:
    session = session_row(fleet.account, saved=True)
    recovery_policy.change(session, on_host_loss=False, on_machine_loss=None, expected_revision=session.revision)
    assert after_the_loss(session).runtime_state == "failed"
    assert not session.operations.exists()


def test_a_session_that_was_stopping_is_parked_and_its_save_has_succeeded(fleet: Tenant) -> None:
    session = session_row(fleet.account)
    save = ask_save(session, stop=True)
    worker.claim(save)
    Session.objects.filter(id=session.id).update(runtime_state=S.STOPPING)
    point = checkpoint_row(session, operation_id=save.id, content_digest="c" * 64)
    after_the_loss(session)
    assert (session.runtime_state, session.park_reason, session.epoch, session.host_id) == ("parked", "requested", 2, "")
    assert ended(save) == ("succeeded", "")
    assert save.response is not None
    assert save.response["checkpoint_id"] == point.id
    assert not session.operations.filter(kind="resume").exists()


def test_what_nobody_is_at_any_more_ends_provisioning_fails_and_resuming_is_parked(fleet: Tenant) -> None:
    began, resumed = session_row(fleet.account, S.PROVISIONING), session_row(fleet.account, S.RESUMING, saved=True)
    silent()
    assert turn() == 2
    began.refresh_from_db()
    resumed.refresh_from_db()
    assert (began.runtime_state, began.epoch, began.host_id) == ("failed", 2, "")
    assert (resumed.runtime_state, resumed.park_reason, resumed.epoch, resumed.host_id) == ("parked", "resume_failed", 2, "")


def _asked_boot(session: Session) -> Operation:
    return _row(session, "boot")


def _asked_resume(session: Session) -> Operation:
    return _row(session, "resume", {"checkpoint_id": session.head_checkpoint_id})


def _row(session: Session, kind: str, parameters: dict[str, object] | None = None) -> Operation:
    place = {"queue": f"host.{HOST}", "host_id": HOST, "parameters": parameters or {}}
    return Operation.objects.create(account=session.account, session=session, kind=kind, **place)


@pytest.mark.parametrize(("state", "ask"), [(S.PROVISIONING, _asked_boot), (S.RESUMING, _asked_resume), (S.DELETING, None)])
def test_what_begins_or_ends_a_machine_is_done_elsewhere_and_no_loss(
    fleet: Tenant, state: S, ask: Callable[[Session], Operation] | None
) -> None:
    session = session_row(fleet.account, state, saved=True)
    operation = ask(session) if ask else _row(session, "delete")
    worker.claim(operation)
    silent()
    assert turn() == 0
    session.refresh_from_db()
    assert session.runtime_state == state
    assert Operation.objects.get(id=operation.id).state == "running"


@pytest.mark.parametrize("state", [S.PARKED, S.FAILED, S.RECOVERY_REQUIRED])
def test_a_session_without_a_machine_does_not_lose_anything(fleet: Tenant, state: S) -> None:
    session = session_row(fleet.account, state, saved=True, host_id="")
    silent()
    assert turn() == 0
    session.refresh_from_db()
    assert (session.runtime_state, session.epoch) == (state, 1)


# -- what becomes of the work on it


@pytest.mark.parametrize("begun", [True, False])
def test_a_save_fails_with_what_is_intact_and_its_worker_can_write_nothing_more(fleet: Tenant, begun: bool) -> None:
    session = session_row(fleet.account, saved=True)
    save = ask_save(session)
    lease = worker.claim(save) if begun else None
    after_the_loss(session)
    assert ended(save) == ("failed", "ks_host_lost")
    assert save.error is not None
    assert save.error["previous_checkpoint_id"] == session.head_checkpoint_id
    assert "previous checkpoint is intact" in save.error["message"]
    if lease is not None:
        with pytest.raises(leases.LeaseLost):
            leases.renew(lease)
    assert session.operations.filter(kind="resume").count() == 1


def test_a_command_that_ran_is_of_unknown_outcome_and_one_that_waited_was_not_run(fleet: Tenant) -> None:
    session = session_row(fleet.account, saved=True)
    ran, waited = (sessions.execute(session, argv=["true"], timeout_seconds=9, asked=Asked()) for _ in range(2))
    worker.claim(ran)
    after_the_loss(session)
    assert ended(ran) == ("reconciliation_required", "ks_internal")
    assert ended(waited) == ("failed", "ks_host_lost")
    assert waited.error is not None
    assert "not run" in waited.error["message"]


def test_a_command_of_a_session_that_has_gone_on_elsewhere_ends_too(fleet: Tenant) -> None:
    session = session_row(fleet.account, saved=True)
    ran = sessions.execute(session, argv=["true"], timeout_seconds=9, asked=Asked())
    worker.claim(ran)
    Session.objects.filter(id=session.id).update(host_id=OTHER, epoch=2)
    silent()
    assert turn() == 1
    assert ended(ran)[0] == "reconciliation_required"
    session.refresh_from_db()
    assert (session.runtime_state, session.epoch) == ("running", 2)


def test_a_fork_that_has_made_its_children_is_answered_as_they_are_and_one_that_has_not_fails(fleet: Tenant) -> None:
    made, unmade = (session_row(fleet.account, saved=True) for _ in range(2))
    with_child, without = (fork.ask(one, children=1, checkpoint_id=None, asked=Asked()) for one in (made, unmade))
    worker.claim(with_child)
    child = fork.create_child(made, fork.child_id(with_child.id, 0), source="test", facts={})
    _row(child, "resume", {"checkpoint_id": checkpoint_row(child, boundary="fork").id})
    silent()
    assert turn() == 2
    assert ended(with_child) == ("succeeded", "")
    assert with_child.response is not None
    assert with_child.response[0]["id"] == child.id
    assert ended(without) == ("failed", "ks_host_lost")
    assert without.error is not None
    assert "No child" in without.error["message"]


def test_a_resume_that_was_asked_for_of_a_machine_that_seemed_to_run_is_attempted_elsewhere(fleet: Tenant) -> None:
    session = session_row(fleet.account, saved=True)
    resume = sessions.resume(session, checkpoint_id=None, asked=Asked())
    worker.claim(resume)
    after_the_loss(session)
    resume.refresh_from_db()
    assert (session.runtime_state, resume.state, resume.lease_token) == ("failed", "running", None)
    assert session.operations.count() == 1, "no second resume is asked for"
    assert Operation.objects.filter(id=resume.id, lease_expires_at__lte=Now()).exists()


def test_a_resume_that_no_host_has_room_for_waits_with_its_reason(fleet: Tenant) -> None:
    Host.objects.filter(id=OTHER).update(offered_bytes=0)
    session = after_the_loss(session_row(fleet.account, saved=True))
    resume = session.operations.get()
    assert (session.runtime_state, resume.state, resume.host_id, resume.waits_for) == ("failed", "queued", "", "no_room")


def test_a_begun_resume_of_a_lost_host_is_attempted_on_another_and_the_old_attempt_is_refused(fleet: Tenant) -> None:
    session = session_row(fleet.account, S.RESUMING, saved=True)
    resume = _asked_resume(session)
    lease = worker.claim(resume)
    Operation.objects.filter(id=resume.id).update(lease_expires_at=Now() - LONG)
    silent()
    assert turn() == 0
    assert place_waiting() == 1
    resume.refresh_from_db()
    session.refresh_from_db()
    assert (resume.host_id, session.host_id, session.epoch) == (OTHER, OTHER, 2)
    with pytest.raises(leases.LeaseLost):
        leases.renew(lease)
