"""Fork: children of one checkpoint, created all in one commit, each then resumed by an operation of its own.

  save      a running session of which no checkpoint was named is saved; it runs on
  create    one commit: the children, their checkpoints and edges, an ordinary resume of each; this operation is handed on to a worker that
            only waits, for the resumes need the slots of the others
  answer    what became of each resume is this operation's response
A death before `create` leaves a checkpoint at most; after it, the children's names are found from the operation's id, and only the answer
is left to give. A resume that fails leaves its child parked, and is not the fork's failure.
"""

import time
from functools import partial
from typing import Any

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint as checkpoints
from checkpoints_app.services import fork as shares
from sessions_app.errors import ServiceError
from sessions_app.models import Operation, Session
from sessions_app.services import dispatch, event, fork, operation, placement, steering, steps
from sessions_app.services import lease as leases
from sessions_app.services.database import give_back_connection
from sessions_app.services.operation import Asked
from sessions_app.services.placement import Placement
from sessions_app.states import OPERATION_ACTIVE, OperationKind
from workers import crash
from workers.host.identity import host_id
from workers.operations.checkpoint import saved
from workers.operations.words import fork_words
from workers.operations.work import Work

#: Longest wait for the children's answers: a fleet that is full or slow must not keep the fork open for ever.
ANSWER_SECONDS = 300.0
_LOOK_SECONDS = 0.02


def run(work: Work) -> None:
    children = fork.children_of(work.operation)
    if children:
        _answer(work, children)
        return
    checkpoint = _checkpoint(work)
    crash.reach("fork_saved")
    _create(work, checkpoint)
    crash.reach("fork_created")


def _checkpoint(work: Work) -> Checkpoint:
    named = work.operation.parameters["checkpoint_id"]
    return checkpoints.restorable(work.session, named) if named else saved(work)


def _create(work: Work, checkpoint: Checkpoint) -> None:
    session, count = work.session, work.operation.parameters["children"]
    for reconcile in steps.reconcile:
        reconcile(session, checkpoint.id)
    facts = {"checkpoint_id": checkpoint.id, "parent_events": checkpoint.event_watermark}
    with work.fenced():
        point = steps.saved_point.call(session, checkpoint.id)
        ids = [fork.child_id(work.operation.id, number) for number in range(count)]
        event.append(session.id, "session.fork", {"checkpoint_id": checkpoint.id, "children": ids}, source=work.source)
        children = [
            fork.create_child(
                session,
                ids[number],
                source=work.source,
                facts=facts,
                point=point,
                steer=steering.unpacked(work.operation.parameters, number),
            )
            for number in range(count)
        ]
        for child, row in zip(children, shares.share(checkpoint, children), strict=True):
            resume = {"checkpoint_id": row.id}
            place = partial(_place, child, row.id, named=checkpoint.id)
            operation.accept(session=child, kind=OperationKind.RESUME, place=place, asked=Asked(), parameters=resume, admitted=True)
        leases.report(work.lease, children=ids, answered=0)
        dispatch.ring(leases.hand_on(work.lease, placement.beside(host_id())))


def _place(child: Session, checkpoint_id: str, *, named: str) -> Placement:
    try:
        return steps.place_resume.call(session=child, checkpoint_id=checkpoint_id)
    except ServiceError as error:
        error.facts["checkpoint_id"] = named
        raise


def _answer(work: Work, children: list[Session]) -> None:
    """Wait for the end of every child's resume, or for the longest time, and tell what each came to by then."""
    deadline, answered = time.monotonic() + ANSWER_SECONDS, 0
    while (ended := sum(one.state not in OPERATION_ACTIVE for one in _resumes(children).values())) < len(children):
        if time.monotonic() > deadline:
            break
        if ended != answered:
            answered = ended
            work.report(children=[child.id for child in children], answered=answered)
        work.keeper.check()
        give_back_connection()
        time.sleep(_LOOK_SECONDS)
    with work.fenced():
        work.succeed(answer_of(work.operation, children), http_status=201)


def answer_of(asked: Operation, children: list[Session]) -> dict[str, Any] | list[dict[str, Any]]:
    """What became of the children's resumes, as of now."""
    resumes, states = _resumes(children), Session.objects.in_bulk([child.id for child in children])
    return fork_words(asked, [(states[child.id], resumes[child.id]) for child in children])


def _resumes(children: list[Session]) -> dict[str, Operation]:
    """The first resume of each child: the one that was asked for as it was created."""
    found = Operation.objects.filter(session__in=children, kind=OperationKind.RESUME).order_by("session_id", "accepted_at", "id")
    return {one.session_id: one for one in found.distinct("session_id")}
