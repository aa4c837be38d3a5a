"""Forks: children of one checkpoint of a session. Each child is a session of its own and outlives its parent."""

import hashlib
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from sessions_app.errors import Invalid, NoCheckpoint
from sessions_app.models import Operation, Session
from sessions_app.services import bounds, event, operation, placement, record, recovery_policy, steering, steps
from sessions_app.services.operation import Asked
from sessions_app.services.placement import Placement
from sessions_app.services.steps import SavedPoint, Steer
from sessions_app.states import OperationKind, SessionState

PARK_REASON = "forked"


@transaction.atomic
def ask(
    session: Session,
    *,
    children: int,
    checkpoint_id: str | None,
    asked: Asked,
    plan_id: str | None = None,
    steers: Sequence[str] = (),
) -> Operation:
    """Ask for so many children of the checkpoint named; of none named: a running session is saved first, another one's head is taken.

    `steers`: none, one for all children, or one for each: a text for the child's first model call.

    Raises Invalid, NoCheckpoint, and what a resume of the checkpoint is refused with, before anything is written.
    """
    bounds.require_children(children)
    if len(steers) not in (0, 1, children):
        raise Invalid("steers has one text for all children, or one for each. Nothing was created.")
    sealed = [steering.packed(steering.seal(session.account_id, text)) for text in steers]
    session = operation.lock(session)
    operation.require_state(session, OperationKind.FORK)
    wanted = checkpoint_id or _saved(session)
    return operation.accept(
        session=session,
        kind=OperationKind.FORK,
        place=lambda: _placement(session, wanted),
        asked=asked,
        parameters={
            "children": children,
            "checkpoint_id": wanted,
            "stop": False,
            "reason": "fork",
            "plan_id": plan_id,
            **({"steers": sealed} if sealed else {}),
        },
    )


def _saved(session: Session) -> str:
    """The checkpoint of a session that names none; empty: it runs, and is saved first. Raises NoCheckpoint."""
    if session.runtime_state == SessionState.RUNNING:
        return ""
    if not session.head_checkpoint_id:
        raise NoCheckpoint(
            "The session does not run and has no saved checkpoint to fork. Nothing was created.", next_action="Start another session."
        )
    return session.head_checkpoint_id


def _placement(session: Session, checkpoint_id: str) -> Placement:
    """The fork itself needs no room: each child is placed, or waits, on its own once it is made. A running session's host does it."""
    placed = steps.place_resume.call(session=session, checkpoint_id=checkpoint_id, with_machine=False) if checkpoint_id else None
    return placed if placed and session.runtime_state != SessionState.RUNNING else placement.on(session.host_id)


def child_id(operation_id: str, number: int) -> str:
    """The same at every attempt of the operation, so that an attempt finds what an earlier one created."""
    return hashlib.sha256(f"fork/{operation_id}/{number}".encode()).hexdigest()[:32]


def children_of(asked: Operation) -> list[Session]:
    """The children that the operation has created: all, in their order, or none."""
    ids = [child_id(asked.id, number) for number in range(asked.parameters["children"])]
    found = Session.objects.in_bulk(ids)
    return [found[one] for one in ids if one in found]


def create_child(
    parent: Session,
    session_id: str,
    *,
    source: str,
    facts: dict[str, Any],
    point: SavedPoint | None = None,
    steer: Steer | None = None,
) -> Session:
    """A parked session with the parent's machine and budget, and what other apps pass on. `point`: the checkpoint that it begins with.

    Prerequisite: inside the transaction that gives it a checkpoint.

    Its history begins here; the event says of which checkpoint and event of its parent it is the continuation.
    """
    child = Session.objects.create(
        id=session_id,
        account_id=parent.account_id,
        runtime_state=SessionState.PARKED,
        park_reason=PARK_REASON,
        parent_id=parent.id,
        fork_checkpoint_id=facts.get("checkpoint_id", ""),
        fork_watermark=facts.get("parent_events"),
        image_name=parent.image_name,
        image_digest=parent.image_digest,
        architecture=parent.architecture,
        memory_bytes=parent.memory_bytes,
        cpus=parent.cpus,
        budget_tokens=parent.budget_tokens,
    )
    event.append(child.id, "session.forked", {"parent": parent.id, **facts}, source=source)
    recovery_policy.inherit(parent, child)
    for pass_on in steps.forked:
        pass_on(parent, child, point=point, steer=steer)
    child.refresh_from_db()
    record.moved(child, "session.forked", actor=source)
    return child
