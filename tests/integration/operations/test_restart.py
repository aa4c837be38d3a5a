"""A computer that restarts faster than its hosts are missed: its machines went with it, and their sessions go on as after a host's loss."""

from collections.abc import Callable

import pytest
from django.db import OperationalError
from django.db.models import F

from sessions_app.models import ServiceRecord, Session
from sessions_app.services import lease as leases
from sessions_app.services import recovery_policy
from tests.integration.operations.world import HOST, OTHER, Died, World, done, error_of, events, expire, guest, pid_of
from workers.models import Host
from workers.operations import host_loss, work
from workers.operations.observe import observe


@pytest.fixture
def restart(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The machines of these sessions are gone, and the kernel has the id of another boot."""

    def act(*sessions: Session) -> None:
        for session in sessions:
            world.kill(session)
        for module in (host_loss, work):
            monkeypatch.setattr(module, "boot_id", lambda: "the next boot")

    return act


def settled(session: Session) -> Session:
    observe()
    session.refresh_from_db()
    return session


def test_the_session_fails_with_its_host_and_goes_on_from_its_last_checkpoint(
    world: World, session: Session, restart: Callable[..., None]
) -> None:
    guest(session, "echo kept > note")
    point = world.save(session)
    restart(session)
    settled(session)
    resume = session.operations.get(kind="resume", parameters__by="host_lost")
    assert session.failure is not None
    assert (session.runtime_state, session.failure["code"]) == ("failed", "ks_host_lost")
    assert session.failure["checkpoint_id"] == point.id
    assert session.failure["next_action"] == f"Wait for its resume: GET /api/operations/{resume.id}."
    assert events(session)[-1] == "session.host_lost"
    done(resume)
    session.refresh_from_db()
    assert (session.runtime_state, session.failure, guest(session, "cat note")) == ("running", None, "kept")
    world.kill(session)
    settled(session)
    assert events(session)[-1] == "session.machine_lost", "in the boot that goes on, a machine dies alone"
    assert session.operations.filter(kind="resume").count() == 1


def test_a_save_that_was_under_way_ends_so_whatever_dies_while_it_says_it(
    world: World, session: Session, restart: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.save(session)
    save = world.ask_save(session)
    world.die_at("row_written")
    with pytest.raises(Died):
        done(save)
    restart(session)
    with monkeypatch.context() as patch:
        patch.setattr(leases, "fail", away)
        expire(save)
        assert done(save).state == "running"
    assert not session.operations.filter(kind="resume").exists()
    expire(save)
    assert error_of(save)["code"] == "ks_host_lost"
    assert events(session).count("session.host_lost") == 1
    assert ServiceRecord.objects.get(session_id=session.id, type="session.taken").facts["host"] == HOST
    assert session.operations.filter(kind="resume", parameters__by="host_lost", state="queued").count() == 1


def away(*_: object) -> None:
    raise OperationalError("the connection is cut before the operation's end is written")


def test_an_owner_who_does_not_want_that_finds_it_failed(world: World, session: Session, restart: Callable[..., None]) -> None:
    world.save(session)
    recovery_policy.change(session, on_host_loss=False, on_machine_loss=True, expected_revision=session.revision)
    restart(session)
    settled(session)
    assert session.failure is not None
    assert (session.failure["code"], session.operations.filter(kind="resume").count()) == ("ks_host_lost", 0)


def test_each_host_of_the_computer_tells_it_of_its_own_sessions(
    world: World, session: Session, at_host: Callable[[str], None], restart: Callable[..., None]
) -> None:
    Host.objects.filter(id=HOST).update(draining=True)
    at_host(OTHER)
    other = world.boot()
    restart(other)
    assert lost_with(settled(other)) == OTHER
    session.refresh_from_db()
    assert session.runtime_state == "running"
    at_host(HOST)
    restart(session)
    assert lost_with(settled(session)) == HOST


def lost_with(session: Session) -> object:
    assert session.failure is not None
    assert session.failure["code"] == "ks_host_lost"
    return ServiceRecord.objects.get(session_id=session.id, type="session.taken").facts["host"]


def test_under_which_boot_a_release_before_began_it_is_not_known(world: World, session: Session, restart: Callable[..., None]) -> None:
    """It may have begun a later epoch than the one that the row tells of."""
    Session.objects.filter(id=session.id).update(machine_boot_epoch=F("epoch") - 1)
    restart(session)
    settled(session)
    assert events(session)[-1] == "session.machine_lost"


def test_what_lives_is_never_taken_for_lost(world: World, session: Session) -> None:
    Session.objects.filter(id=session.id).update(machine_boot="another")
    pid = pid_of(session)
    assert (settled(session).runtime_state, pid_of(session)) == ("running", pid)
