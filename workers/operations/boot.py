"""Boot: a session's first machine."""

from django.db.models import F

from sessions_app.errors import ServiceError, StartFailed
from sessions_app.services import session as sessions
from sessions_app.services.lease import LeaseLost
from sessions_app.states import SessionState
from workers.host import machines
from workers.host.drivers import driver
from workers.host.identity import host_id, machines_directory, runtime_directory
from workers.host.pins import pin_here
from workers.machine.driver import MachineError
from workers.operations.words import session_words
from workers.operations.work import Work

BOOT_SECONDS = 180


def run(work: Work) -> None:
    """On success: the guest answers and the session runs. On failure: no process, no file; the session is failed and says why."""
    try:
        _boot(work)
    except ServiceError as error:
        with work.fenced():
            sessions.move(
                work.session,
                [SessionState.PROVISIONING],
                SessionState.FAILED,
                source=work.source,
                type_="session.failed",
                payload={"reason": error.message},
                failure=error.as_dict(),
                host_id="",
            )
        raise


def _boot(work: Work) -> None:
    session, image = work.session, machines.image_of(work.session)
    machines.end_all(session.id)
    with work.fenced():
        type(session).objects.filter(id=session.id, epoch=session.epoch).update(
            epoch=F("epoch") + 1, host_id=host_id(), pin_digest=pin_here(session.architecture).digest
        )
    session.refresh_from_db()
    machines_directory().mkdir(parents=True, exist_ok=True)
    runtime = runtime_directory(session.id, session.epoch)
    try:
        driver().boot(runtime, machines.spec_of(session), image, timeout_seconds=BOOT_SECONDS)
    except MachineError as error:
        raise StartFailed(
            f"The machine did not start: {error}", next_action="Delete the session with force=1 and create another."
        ) from error
    try:
        with work.fenced():
            sessions.move(session, [SessionState.PROVISIONING], SessionState.RUNNING, source=work.source, type_="session.running")
            work.succeed(session_words(session), http_status=201)
    except LeaseLost:
        machines.end(runtime)
        raise
