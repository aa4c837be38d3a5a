"""Restores in one process: asked for, refused for what they would leave, consented to."""

from typing import Any

import pytest

from checkpoints_app.models import Checkpoint
from sessions_app.errors import RestoreScope
from sessions_app.models import Operation, Session
from sessions_app.services import restore
from sessions_app.services.operation import Asked
from sessions_app.services.restore import Wanted
from tests.integration.operations.world import succeeded


def ask_restore(session: Session, point: Checkpoint, accepted: str | None = None) -> Operation:
    session.refresh_from_db()
    wanted = Wanted(point.id, "wrong branch", session.revision, session.epoch, accepted)
    return restore.ask(session, wanted, Asked())


def refused(session: Session, point: Checkpoint, accepted: str | None = None) -> RestoreScope:
    with pytest.raises(RestoreScope) as found:
        ask_restore(session, point, accepted)
    return found.value


def consented(session: Session, point: Checkpoint) -> Operation:
    return ask_restore(session, point, str(refused(session, point).facts["affected_digest"]))


def answer_of(operation: Operation) -> dict[str, Any]:
    response = succeeded(operation).response
    assert isinstance(response, dict)
    return response
