"""`host drain`, `undrain`, `move`: work is kept from a host, or taken away from it with its memory."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from sessions_app.errors import Conflict
from sessions_app.models import Operation, ServiceRecord, Session
from sessions_app.services import by_operator
from sessions_app.states import OPERATION_ACTIVE, OPERATION_FINAL, OperationKind, OperationState, ResumedBy, SessionState
from workers.fleet.moves import staying
from workers.host import drain
from workers.host.room import HOLDS_MEMORY
from workers.management.host.talk import (
    Subcommand,
    Writes,
    mib,
    named,
    session_named,
    takes_id,
    takes_json,
    takes_wait,
    tell,
    wait_for,
    who,
)
from workers.models import Host


def _drain(out: Writes, options: dict[str, Any]) -> None:
    host = named(options)
    try:
        drain.drain(host, who(), move=options["move"])
    except Conflict:
        if options["wait"] is None:
            raise  # who waits may ask again
    machines = _machines(host)
    if options["move"]:
        out.write(f"{host.id} takes no new work, and its machines ({machines}) are moved to other hosts, a few at a time.")
    else:
        out.write(f"{host.id} takes no new work. Its machines ({machines}) run on, until their sessions are parked or moved.")
    if options["wait"] is None:
        out.write(f"Next: ./keepstate host show {host.id} tells which sessions are still there, and why.")
        return
    if not wait_for(options["wait"], lambda: not _machines(host) and not _on_the_way(host)):
        for one in staying(Host.objects.get(id=host.id)):
            out.write(f"session   {one.session.short_id} is still there: {one.why or 'it is its turn'}")
        left = f"Machines still on {host.id}: {_machines(host)}; on their way elsewhere: {_on_the_way(host)};"
        raise CommandError(f"{left} after {options['wait']} s. It drains on.")
    out.write(f"{host.id} has no machines. Next: stop its workers and work on it, then ./keepstate host undrain {host.id};")
    out.write(f"or, if it does not come back: ./keepstate host retire {host.id}.")


def _machines(host: Host) -> int:
    return Session.objects.filter(host_id=host.id, runtime_state__in=HOLDS_MEMORY).count()


def _on_the_way(host: Host) -> int:
    """Sessions that were saved and stopped there, and do not answer elsewhere yet."""
    resumes = Operation.objects.filter(kind=OperationKind.RESUME, state__in=OPERATION_ACTIVE, parameters__by=ResumedBy.MOVED)
    return resumes.filter(parameters__from=host.id).count()


def _undrain(out: Writes, options: dict[str, Any]) -> None:
    host = named(options)
    drain.take_work(host, who())
    out.write(f"{host.id} takes work again. Moves that are under way come to their end.")


def _move(out: Writes, options: dict[str, Any]) -> None:
    session = session_named(options["session"])
    save = _asked(session, options)
    if not options["json"]:
        there = options["to"] or "another host"
        out.write(f"Session {session.short_id} is saved and stopped on {session.host_id}, and resumed on {there}: {save.id}.")
        if options["wait"] is None:
            out.write("Its page in the admin tells of the end; --wait waits for it.")
    if options["wait"] is None:
        if options["json"]:
            tell(out, {"session_id": session.id, "save_operation_id": save.id, "moved": None})
        return
    if not wait_for(options["wait"], lambda: _ended(save)):
        raise CommandError(f"The move has not ended after {options['wait']} s. It goes on.")
    _tell_end(out, session, save, options)


def _asked(session: Session, options: dict[str, Any]) -> Operation:
    """With --wait, a session that is busy, or in which a command runs, is asked for until it is free."""
    asked: list[Operation] = []

    def ask() -> bool:
        try:
            asked.append(by_operator.move(session, who(), options["to"] or ""))
        except Conflict:
            if options["wait"] is None:
                raise
        return bool(asked)

    if not wait_for(options["wait"] or 0, ask):
        raise CommandError(f"The session was busy for {options['wait']} s. It was not moved, and runs on.")
    return asked[0]


def _ended(save: Operation) -> bool:
    """The save has failed, or the session runs again after it, or was parked for good."""
    save.refresh_from_db()
    if save.state not in OPERATION_FINAL:
        return False
    session = Session.objects.get(id=save.session_id)
    busy = Operation.objects.filter(session=session).exclude(state__in=OPERATION_FINAL).exists()
    return save.state != OperationState.SUCCEEDED or session.runtime_state == SessionState.RUNNING or not busy


def _tell_end(out: Writes, session: Session, save: Operation, options: dict[str, Any]) -> None:
    ends = ServiceRecord.objects.filter(session_id=session.id, type__in=["session.moved", "session.move_failed"])
    told = ends.filter(recorded_at__gt=save.accepted_at).order_by("-id").first()
    if told is None:
        reason = (save.error or {}).get("message", "its resume did not come about; it is tried again")
        raise CommandError(f"The session was not moved: {reason}")
    facts = told.facts
    if options["json"]:
        tell(out, {"session_id": session.id, "save_operation_id": save.id, "moved": facts})
    elif told.type == "session.moved":
        out.write(
            f"Moved from {facts['from']} to {facts['to']}: {mib(facts['stored_bytes'])} new in the store, "
            f"{mib(facts['fetched_bytes'])} fetched there, away for {facts['seconds_away']} s."
        )
    if told.type == "session.move_failed":
        raise CommandError(f"The session is on {facts['to']} again: {facts['reason']}.")


def _takes_drain(parser: ArgumentParser) -> None:
    takes_id(parser)
    parser.add_argument("--move", action="store_true", help="save its machines and resume them on other hosts")
    takes_wait(parser)


def _takes_move(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help="its id, or how that begins (8 characters at least)")
    parser.add_argument("--to", metavar="HOST", help="that host and no other")
    takes_wait(parser)
    takes_json(parser)


SUBCOMMANDS = {
    "drain": Subcommand("it takes no new work; with --move its machines go elsewhere", _takes_drain, _drain),
    "undrain": Subcommand("it takes work again", takes_id, _undrain),
    "move": Subcommand("one session goes to another host, with its memory", _takes_move, _move),
}
