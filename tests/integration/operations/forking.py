"""Forks in one process: the operation creates its children, a worker's slots resume them, and the operation gives its answer."""

from typing import Any

from sessions_app.models import Operation, Session
from sessions_app.services import fork
from sessions_app.services.operation import Asked
from tests.integration.operations.world import World, done, succeeded
from workers.operations import fork as forks


def ask_fork(session: Session, children: int = 2, checkpoint_id: str | None = None) -> Operation:
    return fork.ask(session, children=children, checkpoint_id=checkpoint_id, asked=Asked())


def created(operation: Operation) -> list[Session]:
    """The children, parked, after the first worker's part."""
    done(operation)
    return fork.children_of(operation)


def resumes(children: list[Session]) -> list[Operation]:
    return [child.operations.get(kind="resume") for child in children]


def answered(operation: Operation) -> list[dict[str, Any]]:
    """What the operation answers once it has been handed on."""
    answer: Any = succeeded(operation).response
    return list(answer)


def forked(world: World, session: Session, children: int = 2, checkpoint_id: str | None = None) -> list[Session]:
    """Children that run."""
    operation = ask_fork(session, children, checkpoint_id)
    made = created(operation)
    for resume in resumes(made):
        succeeded(resume)
    answer = answered(operation)
    assert [one["state"] for one in answer] == ["running"] * children, answer
    session.refresh_from_db()
    return [Session.objects.get(id=child.id) for child in made]


__all__ = ["answered", "ask_fork", "created", "forked", "forks", "resumes"]
