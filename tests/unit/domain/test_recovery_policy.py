"""What a session's policy makes of a loss: a resume in the commit that failed it, a few times at most, or a failure that says why not."""

from django.db import transaction

from sessions_app.models import Operation, Session
from sessions_app.services import fork, recovery_policy
from sessions_app.states import OperationKind, OperationState, ResumedBy, SessionState
from tests.support.fleet import Tenant, session_row
from workers.models import Host


def failed(tenant: Tenant, *, saved: bool = True) -> Session:
    lost = {"code": "ks_machine_lost", "message": "The machine was lost.", "next_action": "Resume it."}
    return session_row(tenant.account, SessionState.FAILED, saved=saved, failure=lost, host_id="")


@transaction.atomic
def recovered(session: Session, by: ResumedBy = ResumedBy.HOST_LOST) -> Operation | None:
    return recovery_policy.recover(session, by=by, source="test")


def test_a_loss_of_the_host_asks_for_a_resume_unless_the_owner_does_not_want_that(owner: Tenant) -> None:
    wanted, unwanted = failed(owner), failed(owner)
    recovery_policy.change(unwanted, on_host_loss=False, on_machine_loss=None, expected_revision=unwanted.revision)
    asked = recovered(wanted)
    assert asked is not None
    assert asked.parameters == {"checkpoint_id": wanted.head_checkpoint_id, "by": "host_lost"}
    assert recovered(unwanted) is None


def test_a_loss_of_the_machine_asks_for_a_resume_only_if_the_owner_wants_that(owner: Tenant) -> None:
    unwanted, wanted = failed(owner), failed(owner)
    recovery_policy.change(wanted, on_host_loss=None, on_machine_loss=True, expected_revision=wanted.revision)
    assert recovered(unwanted, ResumedBy.MACHINE_LOST) is None
    assert recovered(wanted, ResumedBy.MACHINE_LOST) is not None


def test_a_session_without_a_checkpoint_is_left_failed(owner: Tenant) -> None:
    assert recovered(failed(owner, saved=False)) is None
    assert not Operation.objects.exists()


def test_after_a_few_resumes_within_minutes_the_session_stays_failed_and_says_so(owner: Tenant) -> None:
    session = failed(owner)
    for _ in range(recovery_policy.LIMIT):
        assert recovered(session) is not None
        Operation.objects.update(state=OperationState.FAILED)
    assert recovered(session) is None
    assert session.failure is not None
    assert "3 times within 10 minutes" in session.failure["message"]
    assert session.events.order_by("number").values_list("type", flat=True).last() == "session.not_recovered"
    Operation.objects.update(accepted_at=session.created_at - recovery_policy.WITHIN)
    assert recovered(session) is not None


def test_a_resume_that_is_refused_leaves_the_session_failed_with_the_refusals_words(owner: Tenant) -> None:
    session = failed(owner)
    Host.objects.all().delete()
    assert recovered(session) is None
    assert session.failure is not None
    assert session.failure["message"].startswith("The machine was lost. It was not resumed by itself: No live host")
    assert not Operation.objects.filter(kind=OperationKind.RESUME).exists()


def test_a_fork_begins_with_its_parents_policy(owner: Tenant) -> None:
    parent = session_row(owner.account, saved=True)
    recovery_policy.change(parent, on_host_loss=False, on_machine_loss=True, expected_revision=parent.revision)
    child = fork.create_child(parent, "f" * 32, source="test", facts={})
    policy = recovery_policy.read(child).policy
    assert (policy.on_host_loss, policy.on_machine_loss) == (False, True)
