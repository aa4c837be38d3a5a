"""A resume that the service asked for and that failed is asked for again: where, when, how often, and who puts an end to it."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints_app.models import Pin
from sessions_app.errors import IntegrityFailed, Internal, ServiceError, StackIncompatible, StartFailed, StartUnavailable
from sessions_app.models import Account, Operation, RecoveryPolicy, Session
from sessions_app.services import cancel, recovery_policy
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.states import OPERATION_ACTIVE, OperationState, ResumedBy
from sessions_app.states import SessionState as S
from tests.support import worker
from tests.support.fleet import GIB, HOST, Tenant, session_row
from tests.support.threads import at_once
from workers.fleet.again import DISTANCES, SPENT, try_again, unanswered
from workers.models import Host, HostPin

pytestmark = pytest.mark.django_db
OTHER = "h-other"
BROKEN = StartFailed("The machine did not resume.", next_action="Resume again.")


@pytest.fixture
def other(owner: Tenant) -> Host:
    """A second host with the same pin, of which a smaller share is free."""
    made = Host.objects.create(id=OTHER, memory_bytes=GIB, cpus=2, boot_id="boot")
    HostPin.objects.create(host=made, pin=Pin.objects.get())
    session_row(owner.account, host_id=OTHER)
    return made


@transaction.atomic
def recovering(account: Account, by: ResumedBy = ResumedBy.HOST_LOST) -> Session:
    lost = {"code": "ks_host_lost", "message": "The host is lost.", "next_action": ""}
    session = session_row(account, S.FAILED, saved=True, failure=lost, host_id="")
    RecoveryPolicy.objects.create(session=session, on_machine_loss=True)
    assert recovery_policy.recover(session, by=by, source="test") is not None
    return session


def last(session: Session) -> Operation:
    return session.operations.filter(kind="resume").latest("accepted_at")


def fails(session: Session, error: ServiceError = BROKEN, *, taken_up: bool = True) -> None:
    """Its worker gives it back, as workers/operations/resume.py does, or its session was never taken up."""
    worker.fail(last(session).id, error)
    Operation.objects.filter(session=session).update(accepted_at=F("accepted_at") - timedelta(seconds=1))  # a test is one transaction
    if taken_up:
        Session.objects.filter(id=session.id).update(runtime_state=S.PARKED, park_reason="resume_failed", failure=None)


def later(session: Session, by: timedelta) -> None:
    Operation.objects.filter(session=session).update(finished_at=F("finished_at") - by, accepted_at=F("accepted_at") - by)


def types(session: Session) -> list[str]:
    return list(session.events.order_by("number").values_list("type", flat=True))


def test_it_is_tried_on_another_host_after_a_while_and_its_owner_is_told(owner: Tenant, other: Host) -> None:
    session = recovering(owner.account)
    first = last(session)
    assert first.host_id == HOST
    fails(session)
    assert try_again() == 0
    later(session, DISTANCES[0])
    assert try_again() == 1
    second = last(session)
    assert (second.host_id, second.state, second.parameters["by"], second.parameters["tries"]) == (OTHER, "queued", "host_lost", 1)
    told = session.events.latest("number")
    assert told.type == "session.resume_again"
    assert {"operation_id": second.id, "try": 1, "of": len(DISTANCES), "reason": BROKEN.message}.items() <= told.payload.items()
    assert Operation.objects.get(id=first.id).progress == {"again": second.id}


def test_where_there_is_no_other_host_it_is_tried_where_it_failed(owner: Tenant) -> None:
    session = recovering(owner.account)
    fails(session)
    later(session, DISTANCES[0])
    assert try_again() == 1
    assert last(session).host_id == HOST


def test_it_is_tried_a_few_times_at_growing_distances_and_then_given_up_once(owner: Tenant) -> None:
    session = recovering(owner.account, ResumedBy.MACHINE_LOST)
    for number, distance in enumerate(DISTANCES):
        fails(session, StartUnavailable("The store does not answer."), taken_up=number > 0)
        later(session, distance - timedelta(seconds=5))
        assert try_again() == 0
        later(session, timedelta(seconds=5))
        assert try_again() == 1
    assert list(DISTANCES) == sorted(DISTANCES)
    fails(session)
    assert [try_again(), try_again()] == [0, 0]
    given_up = session.events.filter(type="session.not_recovered").get()
    assert "5 resumes have failed, the last one so: The machine did not resume." in given_up.payload["reason"]
    assert given_up.payload["next_action"] == "Resume again."
    session.refresh_from_db()
    assert session.runtime_state == S.PARKED
    assert not unanswered().exists()


def test_a_resume_that_no_host_took_in_time_is_tried_again_and_the_sessions_failure_names_it(owner: Tenant) -> None:
    session = recovering(owner.account)
    fails(session, taken_up=False)
    later(session, DISTANCES[0])
    assert try_again() == 1
    session.refresh_from_db()
    assert session.failure is not None
    assert last(session).id in session.failure["next_action"]


@pytest.mark.parametrize(
    "error", [IntegrityFailed("It is damaged.", next_action="Resume the one before."), StackIncompatible("Pins differ.")]
)
def test_what_no_other_host_could_do_better_is_given_up_at_once(owner: Tenant, other: Host, error: ServiceError) -> None:
    session = recovering(owner.account)
    fails(session, error)
    assert try_again() == 0
    assert session.events.latest("number").payload["reason"] == error.message
    later(session, DISTANCES[-1])
    assert try_again() == 0
    assert types(session).count("session.not_recovered") == 1


def test_what_took_all_its_workers_with_it_waits_longer_and_is_tried_once_more(owner: Tenant) -> None:
    session = recovering(owner.account)
    for expected in (1, 0):
        fails(session, Internal("Its worker was lost 3 times."))
        Operation.objects.filter(id=last(session).id).update(attempt=3)
        later(session, DISTANCES[1])
        assert try_again() == 0
        later(session, SPENT)
        assert try_again() == expected
    assert "may be what ends its hosts" in session.events.latest("number").payload["reason"]


def test_what_its_owner_does_in_between_ends_it_without_a_word(owner: Tenant) -> None:
    resumed, cancelled, unwanted = (recovering(owner.account) for _ in range(3))
    cancel.cancel(last(cancelled))
    for session in (resumed, unwanted):
        fails(session)
    sessions.resume(Session.objects.get(id=resumed.id), checkpoint_id=None, asked=Asked())
    fails(resumed)
    recovery_policy.change(unwanted, on_host_loss=False, on_machine_loss=None, expected_revision=unwanted.revision)
    for session in (resumed, cancelled, unwanted):
        later(session, DISTANCES[0])
    assert try_again() == 0
    assert "session.not_recovered" not in types(resumed) + types(cancelled)
    assert session.events.latest("number").payload["reason"] == "Its owner does not want that any more."
    assert not unanswered().exists()


def test_a_session_that_is_not_settled_yet_is_waited_for(owner: Tenant) -> None:
    session = recovering(owner.account)
    fails(session)
    Session.objects.filter(id=session.id).update(runtime_state=S.RESUMING)
    later(session, DISTANCES[0])
    assert try_again() == 0
    Session.objects.filter(id=session.id).update(runtime_state=S.PARKED)
    assert try_again() == 1


@pytest.mark.django_db(transaction=True)
def test_two_turns_at_once_ask_for_one_resume(owner: Tenant) -> None:
    session = recovering(owner.account)
    fails(session)
    later(session, DISTANCES[0])
    assert sum(at_once(2, lambda _: try_again())) == 1
    assert session.operations.count() == 2


def test_a_turn_that_dies_before_its_commit_has_done_nothing_and_keeps_no_other_from_it(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions_ = [recovering(owner.account) for _ in range(2)]
    for session in sessions_:
        fails(session)
        later(session, DISTANCES[0])
    sound = recovery_policy.wait_for

    def dies(session: Session, resume: Operation) -> None:
        if session.id == sessions_[0].id:
            raise RuntimeError("died after it had asked")
        sound(session, resume)

    with monkeypatch.context() as patch:
        patch.setattr(recovery_policy, "wait_for", dies)
        assert try_again() == 1
    assert sessions_[0].operations.count() == 1
    assert try_again() == 1


STEPS = st.sampled_from(["passing", "damaged", "spent", "turn", "wait", "owner", "cancel"])


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=10))
def test_whatever_happens_there_is_one_resume_at_a_time_and_each_failure_has_one_answer(owner: Tenant, steps: list[str]) -> None:
    session = recovering(owner.account)
    for step in [*steps, "passing", "wait", "turn"]:
        active = session.operations.filter(state__in=OPERATION_ACTIVE).first()
        session.refresh_from_db()
        if step in ("passing", "damaged", "spent") and active:
            fails(session, IntegrityFailed("bad") if step == "damaged" else BROKEN)
            Operation.objects.filter(id=active.id).update(attempt=3 if step == "spent" else 1)
        elif step == "turn":
            assert try_again() <= (0 if active else 1)
        elif step == "wait":
            later(session, DISTANCES[-1])
        elif step == "owner" and not active:
            sessions.resume(session, checkpoint_id=None, asked=Asked())
        elif step == "cancel" and active:
            cancel.cancel(active)
        assert session.operations.filter(state__in=OPERATION_ACTIVE).count() <= 1
    failed = session.operations.filter(state=OperationState.FAILED, parameters__by="host_lost")
    answers = [one.progress["again"] for one in failed if one.progress]
    asked = session.operations.filter(parameters__tries__gt=0).count()
    assert sum(answer.startswith("op_") for answer in answers) == len({one for one in answers if one.startswith("op_")}) == asked
    assert types(session).count("session.resume_again") == asked <= len(DISTANCES)
    assert answers.count("given_up") == types(session).count("session.not_recovered")
