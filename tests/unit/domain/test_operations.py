"""Accepting operations: the state is judged under the session's lock, one exclusive at a time."""

import pytest
from django.db import IntegrityError, transaction

from sessions_app.errors import Conflict, NotFound, WrongState
from sessions_app.models import Operation, Session
from sessions_app.services import operation as operations
from sessions_app.services import session as sessions
from sessions_app.services import session_deletion
from sessions_app.services.operation import Asked
from sessions_app.services.placement import Placement
from sessions_app.states import ALLOWED_FROM, EXCLUSIVE_KINDS, OperationKind, SessionState
from tests.support.fleet import HOST, Tenant, boot_asked, session_row


@pytest.mark.parametrize("kind", OperationKind)
@pytest.mark.parametrize("state", SessionState)
def test_a_kind_is_allowed_in_the_states_of_its_table_and_no_other(owner: Tenant, kind: OperationKind, state: SessionState) -> None:
    session = session_row(owner.account, state)
    if state in ALLOWED_FROM[kind]:
        operations.require_state(session, kind)
    else:
        with pytest.raises(WrongState, match=state) as refused:
            operations.require_state(session, kind)
        assert refused.value.next_action


def test_what_was_read_before_the_lock_decides_nothing(owner: Tenant) -> None:
    stale = session_row(owner.account, saved=True)
    Session.objects.filter(id=stale.id).update(runtime_state=SessionState.PARKED, host_id="")
    with pytest.raises(WrongState, match="parked"):
        sessions.checkpoint(stale, stop=False, reason="", asked=Asked())
    assert not Operation.objects.exists()


def test_the_queue_is_of_the_host_where_the_session_is_now(owner: Tenant) -> None:
    stale = session_row(owner.account, host_id="h-old")
    Session.objects.filter(id=stale.id).update(host_id="h-new")
    assert sessions.execute(stale, argv=["true"], timeout_seconds=1, asked=Asked()).queue == "io.h-new"


def test_a_session_deleted_meanwhile_is_not_found(owner: Tenant) -> None:
    stale = session_row(owner.account, saved=True)
    Session.objects.filter(id=stale.id).update(runtime_state=SessionState.DELETED)
    with pytest.raises(NotFound):
        session_deletion.ask(stale, force=True, asked=Asked())


def test_a_running_sessions_resume_goes_to_its_own_host_which_can_see_whether_it_lives(owner: Tenant) -> None:
    session = session_row(owner.account, saved=True)
    assert sessions.resume(session, checkpoint_id=None, asked=Asked()).queue == f"host.{HOST}"


def test_a_parked_sessions_resume_goes_to_its_pin(owner: Tenant) -> None:
    session = session_row(owner.account, SessionState.PARKED, saved=True)
    assert sessions.resume(session, checkpoint_id=None, asked=Asked()).queue == f"host.{HOST}"


@pytest.mark.parametrize("first", sorted(EXCLUSIVE_KINDS))
def test_the_database_itself_holds_the_exclusive_operations_to_one(owner: Tenant, first: OperationKind) -> None:
    session = session_row(owner.account)
    Operation.objects.create(account=owner.account, session=session, kind=first, queue="q")
    with pytest.raises(IntegrityError), transaction.atomic():
        Operation.objects.create(account=owner.account, session=session, kind=OperationKind.CHECKPOINT, queue="q")
    Operation.objects.create(account=owner.account, session=session, kind=OperationKind.EXEC, queue="q")


def test_a_second_exclusive_operation_names_the_first(owner: Tenant) -> None:
    boot = boot_asked(owner.account)
    with pytest.raises(Conflict, match=boot.id) as refused, transaction.atomic():
        operations.accept(session=boot.session, kind=OperationKind.DELETE, place=lambda: Placement("q"), asked=Asked())
    assert refused.value.facts["operation_id"] == boot.id
