"""Sessions: asked for, found, moved from state to state by guarded updates."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from sessions_app.errors import Conflict, NoCheckpoint, NotFound, WrongState
from sessions_app.ids import RECORD_PREFIX
from sessions_app.models import Account, Operation, Session
from sessions_app.services import account as accounts
from sessions_app.services import (
    activity,
    awake,
    bounds,
    event,
    lifecycle,
    operation,
    placement,
    quota,
    record,
    roll_up,
    steps,
    waiting,
    workspace,
)
from sessions_app.services.operation import Asked
from sessions_app.services.placement import Place, Placement
from sessions_app.states import SESSION_TRANSITIONS, OperationKind, SessionState

#: A session that comes to one of these needs no memory of a host any more.
_FREES_ROOM = frozenset({SessionState.PARKED, SessionState.FAILED, SessionState.RECOVERY_REQUIRED, SessionState.DELETED})


@dataclass(frozen=True)
class Wanted:
    """A session as asked for. None: the service's default. Sizes in MiB."""

    image: str | None = None
    name: str = ""
    memory_mib: int | None = None
    cpus: int = 1
    budget_tokens: int | None = None
    workspace_id: str | None = None


def create(account: Account, wanted: Wanted, asked: Asked) -> Operation:
    """A session row and its boot operation in one commit. Raises Invalid, FleetUnavailable, or as `begin`: then nothing was written."""
    session = draft(account, wanted)
    with transaction.atomic():
        begin(session, wanted.workspace_id)
        return operation.accept(session=session, kind=OperationKind.BOOT, place=lambda: place(session), asked=asked)


def draft(account: Account, wanted: Wanted) -> Session:
    """A session as asked for, not written yet. Raises Invalid."""
    bounds.require_name(wanted.name)
    bounds.require_cpus(wanted.cpus)
    if wanted.budget_tokens is not None:
        bounds.require_budget(wanted.budget_tokens)
    image = steps.resolve_image.call(account, wanted.image)
    memory_bytes = image.default_memory_bytes if wanted.memory_mib is None else wanted.memory_mib * bounds.MIB
    bounds.require_memory(memory_bytes // bounds.MIB)
    return Session(
        account=account,
        name=wanted.name,
        image_name=image.name,
        image_digest=image.digest,
        architecture=image.architecture,
        memory_bytes=memory_bytes,
        cpus=wanted.cpus,
        budget_tokens=wanted.budget_tokens or bounds.DEFAULT_BUDGET_TOKENS,
    )


def place(session: Session) -> Placement:
    """Where it boots, or what it waits for. Prerequisite: inside the transaction that accepts the boot.

    Raises FleetUnavailable, if it can never run: nothing was reserved.
    """
    return steps.place_boot.call(architecture=session.architecture, image_digest=session.image_digest, memory_bytes=session.memory_bytes)


def begin(session: Session, workspace_id: str | None = None) -> None:
    """Write a draft and the first line of its history. Prerequisite: inside a transaction.

    Raises AccountClosing, QuotaExceeded, or as `workspace.give`.
    """
    accounts.require_open(session.account_id)
    quota.require_session(session.account_id)
    session.save(force_insert=True)
    event.append(session.id, "session.created", {"image": session.image_name}, source="api")
    record.moved(session, "session.created", actor="api")
    if workspace_id is not None:
        workspace.give(workspace_id, session)
    session.refresh_from_db()


def find(account: Account, text: str) -> Session:
    """By full id, record id, short id or a unique prefix; deleted sessions are gone. Raises NotFound or Conflict (ambiguous)."""
    prefix = text.removeprefix(RECORD_PREFIX).lower()
    if len(prefix) >= bounds.PREFIX_LENGTH and prefix.isascii() and prefix.isalnum():
        live = Session.objects.filter(account=account, id__startswith=prefix).exclude(runtime_state=SessionState.DELETED)
        found = list(live.order_by("id")[:2])
        if len(found) > 1:
            raise Conflict(
                "More than one session begins with this id. Nothing was done.",
                next_action="Name it by its full id.",
                facts={"candidates": [one.id for one in found]},
            )
        if found:
            return found[0]
    raise NotFound("There is no such session.", next_action="List the sessions: GET /api/v2/sessions?source=fleet.")


@transaction.atomic
def checkpoint(session: Session, *, stop: bool, reason: str, asked: Asked) -> Operation:
    """Ask for a save; with `stop`, the machine is parked after the save is published, never before."""
    bounds.require_reason(reason)
    session = operation.lock(session)
    operation.require_state(session, OperationKind.CHECKPOINT)
    parameters = {"stop": stop, "reason": reason}
    return operation.accept(
        session=session, kind=OperationKind.CHECKPOINT, place=lambda: placement.on(session.host_id), asked=asked, parameters=parameters
    )


@transaction.atomic
def resume(session: Session, *, checkpoint_id: str | None, asked: Asked, mode: str | None = None) -> Operation:
    """Ask for the session's work to go on from its head checkpoint, or from the one named. `mode` (ResumeMode) overrules the host's own."""
    session = operation.lock(session)
    operation.require_state(session, OperationKind.RESUME)
    wanted = checkpoint_id or session.head_checkpoint_id
    if not wanted:
        raise _no_checkpoint()
    parameters = {"checkpoint_id": wanted, **({"mode": str(mode)} if mode else {})}
    return operation.accept(
        session=session, kind=OperationKind.RESUME, place=lambda: _place_resume(session, wanted), asked=asked, parameters=parameters
    )


def _no_checkpoint() -> NoCheckpoint:
    return NoCheckpoint("The session has no saved checkpoint to resume from. Nothing was started.", next_action="Delete it with force=1.")


def _place_resume(session: Session, checkpoint_id: str) -> Placement:
    if session.runtime_state == SessionState.RUNNING:
        return placement.on(session.host_id)  # only that host can see whether the machine lives
    return steps.place_resume.call(session=session, checkpoint_id=checkpoint_id)


def resume_unasked(
    session: Session,
    *,
    by: str,
    host_id: str = "",
    avoid: str = "",
    place: Place | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Operation:
    """A resume of the head checkpoint in the owner's stead; `by` says why (states.ResumedBy). `facts` are kept with the parameters.

    `host_id`: there and nowhere else; `avoid`: there only where no other has room; `place`: by the caller's own choice. Without one it
    waits also while every host that could take it is silent, for nobody would ask again.

    Prerequisite: the session is locked, and no exclusive operation of it is active. It has its place in the account's quotas already, for
    its machine ran until now. Raises NoCheckpoint, WrongState, Conflict, and as `steps.place_resume`; then nothing was written.
    """
    if not session.head_checkpoint_id:
        raise _no_checkpoint()
    head, hosts = session.head_checkpoint_id, {"host_id": host_id, "avoid": avoid}
    return operation.accept(
        session=session,
        kind=OperationKind.RESUME,
        place=place or (lambda: steps.place_resume.call(session=session, checkpoint_id=head, host_id=host_id, avoid=avoid, patient=True)),
        asked=Asked(),
        parameters={"checkpoint_id": head, "by": by, **{name: host for name, host in hosts.items() if host}, **(facts or {})},
        admitted=True,
    )


@transaction.atomic
def execute(session: Session, *, argv: list[str], timeout_seconds: int, asked: Asked) -> Operation:
    """Ask for one command in the guest. A command may have had effects when its worker dies, so it is never attempted twice."""
    bounds.require_command(argv, timeout_seconds)
    session = operation.lock(session)
    operation.require_state(session, OperationKind.EXEC)
    activity.touch(session)
    return operation.accept(
        session=session,
        kind=OperationKind.EXEC,
        place=lambda: placement.beside(session.host_id),
        asked=asked,
        parameters={"argv": argv, "timeout_seconds": timeout_seconds},
        max_attempts=1,
    )


def move(
    session: Session,
    expected: Iterable[SessionState],
    to: SessionState,
    *,
    source: str,
    type_: str,
    payload: dict[str, Any] | None = None,
    **changes: Any,
) -> None:
    """One guarded step with its event. Prerequisite: inside a transaction that has fenced the caller.

    Raises WrongState, naming both states, if the session is not in an expected state or the edge does not exist.
    """
    allowed = [state for state in expected if to in SESSION_TRANSITIONS[state]]
    moved = Session.objects.filter(id=session.id, runtime_state__in=allowed, epoch=session.epoch).update(
        runtime_state=to, revision=F("revision") + 1, last_activity_at=Now(), **changes
    )
    before = session.runtime_state
    session.refresh_from_db()
    if not moved:
        raise WrongState(
            f"The session cannot go from {session.runtime_state} to {to} (it was {before}).", facts={"runtime_state": session.runtime_state}
        )
    if to in _FREES_ROOM:
        waiting.wake()
    lifecycle.moved(session.id, to)
    awake.moved(session.id, to)
    event.append(session.id, type_, payload, source=source)
    record.moved(session, type_, actor=source)
    if to == SessionState.DELETED:
        roll_up.tell(session.id)  # its own rows may be gone before the next hour
    session.refresh_from_db(fields=["event_count", "last_activity_at"])
