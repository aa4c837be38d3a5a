"""Boot: a session's first machine."""

from sessions_app.errors import ServiceError, StartFailed
from sessions_app.services import event
from sessions_app.services import session as sessions
from sessions_app.services.outcome import unfinished
from sessions_app.states import SessionState
from workers import crash
from workers.host import machines
from workers.host.drivers import driver
from workers.host.identity import host_id, machines_directory, runtime_directory
from workers.host.pins import pin_here
from workers.machine.driver import MachineError
from workers.operations import environment, workspace
from workers.operations.words import session_words
from workers.operations.work import LEFT_TO_THE_NEXT, Work

BOOT_SECONDS = 180


def run(work: Work) -> None:
    """On success: the guest answers and the session runs. On failure: no process, no file; the session is failed and says why."""
    if work.session.runtime_state == SessionState.FAILED:
        raise _told_already(work)
    try:
        _boot(work)
    except LEFT_TO_THE_NEXT:
        raise
    except Exception as error:
        _fail_session(work, error)
        raise


def _told_already(work: Work) -> ServiceError:
    """An earlier attempt failed the session and died before it ended the operation: this one only says the same."""
    failure = work.session.failure or unfinished(work.operation.kind, "The boot failed.").as_dict()
    return StartFailed(failure["message"], next_action=failure["next_action"], code=failure["code"])


def _fail_session(work: Work, error: Exception) -> None:
    told = error if isinstance(error, ServiceError) else unfinished(work.operation.kind, "The boot failed inside KeepState.")
    with work.fenced(cancellable=False):
        sessions.move(
            work.session,
            [SessionState.PROVISIONING],
            SessionState.FAILED,
            source=work.source,
            type_="session.failed",
            payload={"reason": told.message},
            failure=told.as_dict(),
            host_id="",
        )


def _boot(work: Work) -> None:
    session, image = work.session, machines.image_of(work.session)
    pin = pin_here(session.architecture)
    work.keeper.check()
    machines.end_all(session.id, until_epoch=session.epoch)
    work.next_epoch(host_id=host_id(), pin_digest=pin.digest)
    crash.reach("boot_claimed")
    machines_directory().mkdir(parents=True, exist_ok=True)
    runtime = runtime_directory(session.id, session.epoch)
    try:
        machine = driver().boot(runtime, machines.spec_of(session), image, timeout_seconds=BOOT_SECONDS)
    except MachineError as error:
        raise StartFailed(
            f"The machine did not start: {error}", next_action="Delete the session with force=1 and create another."
        ) from error
    crash.reach("booted")
    try:
        environment.give(machine, session)
        unpacked = workspace.fill(work, machine)
        with work.fenced():
            if unpacked is not None:
                event.append(session.id, "session.workspace_unpacked", workspace.facts_of(unpacked), source=work.source)
                unpacked.delete()
            sessions.move(session, [SessionState.PROVISIONING], SessionState.RUNNING, source=work.source, type_="session.running")
            work.succeed(session_words(session), http_status=201)
    except BaseException:
        machines.end(runtime)  # its epoch is ours alone; if the commit's answer was lost, the host finds a session without its machine
        raise
